import { describe, expect, it } from 'vitest'
import { compareStates } from '../../src/reconcile/classify.js'

describe('compareStates', () => {
  it('R5: what others still carry to Redis is on its way within the grace time', () => {
    const held = { state: 'held' } as const
    const paid = { status: 'paid', reason: null } as const
    expect(compareStates(held, paid, true).status).not.toBe('finding')
    expect(compareStates(held, paid, false)).toMatchObject({ kind: 'paid-owed' })
  })

  it('R2: a payment that Redis was not told of is told at once: nobody else carries it', () => {
    const confirmed = { state: 'confirmed' } as const
    for (const young of [true, false])
      expect(compareStates(confirmed, { status: 'paid', reason: null }, young)).toMatchObject({
        status: 'finding',
        kind: 'paid-owed',
        repair: 'confirm',
      })
  })
})
