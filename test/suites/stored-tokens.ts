import { beforeEach, describe, expect, it } from 'vitest'
import type { RedisLike } from '../../src/core/ports.js'
import type { TokenClaims } from '../../src/core/types.js'
import { TokenIssuer } from '../../src/token/token-issuer.js'

/** The promises of stored tokens, for any Redis. */
export function storedTokens(name: string, open: () => RedisLike): void {
  const ANN: TokenClaims = { activityId: 'a1', userId: 'ann', deviceId: 'd1' }
  const BOB: TokenClaims = { activityId: 'a1', userId: 'bob' }
  const TERMS = { expiresAt: Date.now() + 3_600_000, epoch: 3 }

  describe(`stored tokens on ${name}`, () => {
    let store: RedisLike
    let tokens: TokenIssuer
    beforeEach(() => {
      store = open()
      tokens = new TokenIssuer({ store })
    })

    it('T1 are UUIDs, and the proof says that the deduction must look for them', async () => {
      const token = await tokens.issue(ANN, TERMS)
      expect(token).toMatch(/^[0-9a-f-]{36}$/)
      expect(await tokens.verify(token, ANN)).toEqual({
        status: 'valid',
        proof: { tokenId: token, issue: 3, stored: true },
      })
    })

    it('C07 a buyer who asks 50 times at once has one live token, and keeps it', async () => {
      const got = await Promise.all(Array.from({ length: 50 }, () => tokens.issue(ANN, TERMS)))
      expect(new Set(got).size).toBe(1)
      expect(await new TokenIssuer({ store }).issue(ANN, TERMS)).toBe(got[0])
      expect(await tokens.issue(BOB, TERMS)).not.toBe(got[0])
    })

    it('are replaced, not doubled, when device, epoch or end change', async () => {
      let held = await tokens.issue(ANN, TERMS)
      for (const [claims, terms] of [
        [{ ...ANN, deviceId: 'd2' }, TERMS],
        [
          { ...ANN, deviceId: 'd2' },
          { ...TERMS, epoch: 4 },
        ],
        [
          { ...ANN, deviceId: 'd2' },
          { epoch: 4, expiresAt: TERMS.expiresAt + 1 },
        ],
        [{ activityId: 'a1', userId: 'ann' }, TERMS],
      ] as const) {
        const next = await tokens.issue(claims, terms)
        expect(next).not.toBe(held)
        expect(await tokens.verify(held, claims)).toEqual({ status: 'token-revoked' })
        expect((await tokens.verify(next, claims)).status).toBe('valid')
        held = next
      }
    })

    it('two devices of one user that ask at once end with one live token between them', async () => {
      const devices = Array.from({ length: 6 }, (_, i) => ({ ...ANN, deviceId: `d${i}` }))
      const got = await Promise.all(devices.map((claims) => tokens.issue(claims, TERMS)))
      const seen = await Promise.all(
        got.map((token, i) => tokens.verify(token, devices[i] as TokenClaims)),
      )
      expect(seen.filter((v) => v.status === 'valid')).toHaveLength(1)
    })

    it('C07 of another user or device are not yours; of another activity are not known there', async () => {
      const token = await tokens.issue(ANN, TERMS)
      expect(await tokens.verify(token, BOB)).toEqual({ status: 'token-not-yours' })
      expect(await tokens.verify(token, { ...ANN, deviceId: 'd2' })).toEqual({
        status: 'token-not-yours',
      })
      expect(await tokens.verify(token, { ...ANN, activityId: 'a2' })).toEqual({
        status: 'token-revoked',
      })
      expect((await tokens.verify(token, ANN)).status).toBe('valid')
    })

    it('can be revoked one by one, once; the buyer may then be given another', async () => {
      const ann = await tokens.issue(ANN, TERMS)
      const bob = await tokens.issue(BOB, TERMS)
      expect(await tokens.revoke('a1', ann)).toBe(true)
      expect(await tokens.revoke('a1', ann)).toBe(false)
      expect(await tokens.verify(ann, ANN)).toEqual({ status: 'token-revoked' })
      expect((await tokens.verify(bob, BOB)).status).toBe('valid')
      const next = await tokens.issue(ANN, TERMS)
      expect(next).not.toBe(ann)
      expect(await tokens.revoke('a1', ann)).toBe(false)
      expect((await tokens.verify(next, ANN)).status).toBe('valid')
    })

    it('expire like signed ones, and for ten minutes more are told from revoked ones', async () => {
      const token = await tokens.issue(ANN, TERMS)
      const at = async (now: number) =>
        (await new TokenIssuer({ store, clock: () => now }).verify(token, ANN)).status
      expect(await at(TERMS.expiresAt + 59_999)).toBe('valid')
      expect(await at(TERMS.expiresAt + 60_000)).toBe('token-expired')
      const recent = { expiresAt: Date.now() - 300_000, epoch: 1 }
      const past = await tokens.issue(BOB, recent)
      expect(await tokens.verify(past, BOB)).toEqual({ status: 'token-expired' })
      const gone = await tokens.issue(BOB, { expiresAt: Date.now() - 700_000, epoch: 1 })
      expect(await tokens.verify(gone, BOB)).toEqual({ status: 'token-revoked' })
    })

    it('garbage is invalid, without asking Redis', async () => {
      const silent = new TokenIssuer({
        store: {
          evalsha: () => Promise.reject(new Error('asked')),
          eval: () => Promise.reject(new Error('asked')),
        },
      })
      const token = await tokens.issue(ANN, TERMS)
      for (const junk of [
        'x'.repeat(10_000),
        token.toUpperCase(),
        `${token} `,
        token.replaceAll('-', ''),
        '*',
        [token],
        7,
      ])
        expect(await silent.verify(junk, ANN)).toEqual({ status: 'token-invalid' })
      expect(await silent.verify('', ANN)).toEqual({ status: 'token-missing' })
    })
  })
}
