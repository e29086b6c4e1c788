import type { TokenClaims, TokenProof, TokenRefusal } from '../core/types.js'

/** What a token says beside whom it is for. */
export interface IssueTerms {
  /** The first millisecond in which the token is no longer good (leeway aside): the sale's fixed end, epoch ms. */
  readonly expiresAt: number
  /** The sale's token epoch, from `ActivityControl.read`; raising it revokes every token of the sale. */
  readonly epoch: number
}

export type Verified = { readonly status: 'valid'; readonly proof: TokenProof } | TokenRefusal

/** A way to make and check tokens. All arguments have been checked. */
export interface TokenKind {
  issue(claims: TokenClaims, terms: IssueTerms): Promise<string>
  /** @param latest a token whose `expiresAt` is at or before this instant has expired */
  verify(token: string, claims: TokenClaims, latest: number): Promise<Verified>
}
