import type { SubmitRequest, TokenIssuer } from 'flash-sale-kit'

/**
 * Of a hundred clicks ten repeat an earlier buyer's, five are one robot's, three come with a token of their own making and
 * two ask for more than an order may have: each layer has somebody to refuse.
 */
export async function clickOf(
  i: number,
  ref: { readonly activityId: string; readonly skuId: string },
  issue: (userId: string) => Promise<string>,
): Promise<SubmitRequest> {
  const share = i % 100
  const robot = share >= 10 && share < 15
  const userId = robot ? 'robot' : `u${share < 10 ? i >> 1 : i}`
  const forged = share >= 15 && share < 18
  const greedy = share >= 18 && share < 20
  return {
    ...ref,
    buyer: { userId, ip: robot ? '10.255.255.255' : addressOf(userId) },
    token: forged ? 'A'.repeat(90) : await issue(userId),
    quantity: greedy ? 2 : 1,
  }
}

/** One for each buyer. */
function addressOf(userId: string): string {
  const n = Number(userId.slice(1))
  return `10.${(n >> 16) & 127}.${(n >> 8) & 255}.${n & 255}`
}

/** As a page asks for it before the opening. */
export function issuer(tokens: TokenIssuer, activityId: string, expiresAt: number) {
  return (userId: string) => tokens.issue({ activityId, userId }, { expiresAt, epoch: 1 })
}
