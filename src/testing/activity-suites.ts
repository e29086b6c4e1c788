import { deepEqual, equal, notEqual, ok, rejects } from 'node:assert/strict'
import { newOrderNo } from '../core/order-no.js'
import type { ActivityControl, ActivityStore } from '../core/ports.js'
import type { Activity, Audit } from '../core/types.js'
import { type Check, type ConformanceCase, casesOf } from './conformance.js'

export interface ActivityControlUnderTest {
  readonly control: ActivityControl
  /** Another instance on the same rows, as another process would have it; where there is none, the same. */
  another(): ActivityControl
  /** How many acts are audited of an activity; null: of the consumers. */
  audited(activityId: string | null): Promise<number>
  close(): Promise<void>
}

export interface ActivityStoreUnderTest {
  readonly store: ActivityStore
  /** Writes an activity as the host does; its reservations are not settled. */
  put(activity: Activity): Promise<void>
  /** Says that all reservations of it are settled; left out where a store never knows. */
  settle?(activityId: string): Promise<void>
  close(): Promise<void>
}

const BY: Audit = { actor: 'suite', reason: 'a test of the suite' }
const someId = () => `suite-${newOrderNo()}`
const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]

const ofControl: readonly Check<ActivityControlUnderTest, never>[] = [
  {
    name: 'O1: an activity nobody has touched is stopped',
    async check({ control }) {
      const untouched = { state: 'stopped', tokenEpoch: 1, revision: 0 }
      deepEqual(await control.read(someId()), untouched)
      equal(await control.lastAct(someId()), null)
    },
  },
  {
    name: 'O1: an act is seen by everybody at once, with who did it and why, and is audited',
    async check({ control, another, audited }) {
      const id = someId()
      let before = 0
      for (const state of ['open', 'stopped', 'open'] as const) {
        const revision = await control.set(id, state, { ...BY, reason: `to ${state}` })
        ok(revision > before, 'revisions rise')
        before = revision
        deepEqual(await another().read(id), { state, tokenEpoch: 1, revision })
        const { actor } = BY
        deepEqual(await another().lastAct(id), { state, actor, reason: `to ${state}`, revision })
      }
      equal(await audited(id), 3)
      deepEqual((await control.read(`${id}x`)).state, 'stopped', 'another activity')
    },
  },
  {
    name: 'O1: an act on condition does nothing once somebody else has acted',
    async check({ control, another, audited }) {
      const id = someId()
      const first = await control.setIf(id, 'open', BY, 0)
      if (first === null) return notEqual(first, null, 'nobody had acted')
      equal(await another().setIf(id, 'stopped', BY, 0), null)
      equal((await control.read(id)).state, 'open')
      const second = (await another().setIf(id, 'stopped', BY, first)) ?? 0
      ok(second > first)
      deepEqual((await control.lastAct(id))?.revision, second)
      equal(await audited(id), 2, 'what was not done is not audited')
    },
  },
  {
    name: 'O1: of eight acts on one condition at once one is done, also on an activity without a row',
    async check({ control, another }) {
      const id = someId()
      for (let seen = 0, round = 0; round < 3; round++) {
        const all = await Promise.all(
          EIGHT.map((i) => (i % 2 ? control : another()).setIf(id, 'open', BY, seen)),
        )
        const done = all.filter((revision) => revision !== null)
        equal(done.length, 1, `${done.length} of eight were done`)
        seen = done[0] ?? 0
        equal((await control.read(id)).revision, seen)
      }
    },
  },
  {
    name: 'T1: every revocation raises the token epoch by one, eight at once by eight, and nothing else',
    async check({ control, another, audited }) {
      const id = someId()
      await control.set(id, 'open', BY)
      const epochs = await Promise.all(
        EIGHT.map((i) => (i % 2 ? control : another()).revokeTokens(id, BY)),
      )
      deepEqual(
        epochs.sort((a, b) => a - b),
        EIGHT.map((i) => i + 1),
      )
      const { state, tokenEpoch } = await another().read(id)
      deepEqual([state, tokenEpoch], ['open', 9])
      equal(await audited(id), 9)
      await control.set(id, 'stopped', BY)
      equal((await control.read(id)).tokenEpoch, 9, 'a stop leaves the epoch')
    },
  },
  {
    name: 'Q4: consumers run until somebody freezes them, and again when he lets them go',
    async check({ control, another, audited }) {
      equal(await another().readConsumers(), 'running')
      for (const state of ['frozen', 'running'] as const) {
        await control.setConsumers(state, BY)
        equal(await another().readConsumers(), state)
      }
      equal(await audited(null), 2)
    },
  },
  {
    name: 'C10: ids that differ in a case are different activities',
    async check({ control }) {
      const id = someId()
      await control.set(`${id}A`, 'open', BY)
      equal((await control.read(`${id}a`)).state, 'stopped')
    },
  },
  {
    name: 'O1: without who and why nothing is done',
    async check({ control }) {
      const id = someId()
      await rejects(control.set(id, 'open', {} as Audit))
      equal((await control.read(id)).revision, 0)
    },
  },
]

/** The contract of the {@link ActivityControl} port as cases for any test runner. */
export function activityControlSuite(): readonly ConformanceCase<ActivityControlUnderTest>[] {
  return casesOf('activityControlSuite', ofControl, [], (under: ActivityControlUnderTest) => under)
}

function activityOf(activityId: string, o: Partial<Activity> = {}): Activity {
  const now = Date.now()
  return {
    activityId,
    version: 'v1',
    opensAt: now + 60_000,
    endsAt: now + 3_600_000,
    payWithinMs: 900_000,
    mode: 'queued',
    tokens: 'required',
    maxPerOrder: 2,
    skus: [
      { skuId: 's1', units: 10, priceMinor: 9_900, currency: 'CNY' },
      { skuId: 's2', units: 1, priceMinor: 0, currency: 'JPY' },
    ],
    ...o,
  }
}

const ofStore: readonly Check<ActivityStoreUnderTest, 'settles'>[] = [
  {
    name: 'F1: gives back an activity as it was written, numbers as numbers',
    async check({ store, put }) {
      for (const mode of ['queued', 'strong'] as const) {
        const activity = activityOf(someId(), { mode, watermark: 77 })
        await put(activity)
        deepEqual(await store.load(activity.activityId), activity)
      }
    },
  },
  {
    name: 'F1: an activity that is not there is null, and no error',
    async check({ store }) {
      equal(await store.load(someId()), null)
    },
  },
  {
    name: 'F1: a new version is seen by the next load',
    async check({ store, put }) {
      const activity = activityOf(someId())
      await put(activity)
      await store.load(activity.activityId)
      await put({ ...activity, version: 'v2', maxPerOrder: 5 })
      const loaded = await store.load(activity.activityId)
      deepEqual([loaded?.version, loaded?.maxPerOrder], ['v2', 5])
    },
  },
  {
    name: 'C10: ids that differ in a case are different activities',
    async check({ store, put }) {
      const id = someId()
      await put(activityOf(`${id}A`))
      equal(await store.load(`${id}a`), null)
    },
  },
  {
    name: 'P2: lists each activity whose reservations are not settled, once',
    async check({ store, put }) {
      // Also before it opens and once it has ended: the relay looks after what is left.
      const now = Date.now()
      const ended = { opensAt: now - 7_200_000, endsAt: now - 3_600_000 }
      const ids = [someId(), someId(), someId()]
      for (const [i, id] of ids.entries()) await put(activityOf(id, i === 1 ? ended : {}))
      const live = await store.live()
      for (const id of ids) equal(live.filter((other) => other === id).length, 1)
    },
  },
  {
    name: 'an activity whose reservations are settled is listed no more, and still loaded',
    needs: ['settles'],
    async check({ store, put, settle }) {
      const activity = activityOf(someId())
      await put(activity)
      await settle?.(activity.activityId)
      equal((await store.live()).includes(activity.activityId), false)
      notEqual(await store.load(activity.activityId), null)
    },
  },
]

/** The contract of the {@link ActivityStore} port as cases for any test runner; `settles`: `settle` is there. */
export function activityStoreSuite(
  features: readonly 'settles'[] = [],
): readonly ConformanceCase<ActivityStoreUnderTest>[] {
  return casesOf('activityStoreSuite', ofStore, features, (under: ActivityStoreUnderTest) => under)
}
