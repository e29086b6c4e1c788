import type { SagaDefinition, SagaStep, StepRefused } from 'flash-sale-kit'
import { type SagaStepsUnderTest, sagaStepsSuite } from 'flash-sale-kit/testing'
import { describe, test } from 'vitest'
import { type Mutant, noticed } from './mutants.js'

interface Gift {
  readonly userId: string
  readonly couponId?: string
}
type Step = SagaStep<Gift>
interface Steps {
  readonly coupon: Step
  readonly points: Step
  readonly mail: Step
}

/** Two systems that know keys, one that only knows who has what. */
class World {
  readonly coupons = new Map<string, string>()
  readonly points = new Map<string, string>()
  readonly mails: string[] = []
  made = 0
}

const refusal: StepRefused = { status: 'failed', reason: 'none left' }
const poor = ({ userId }: Gift) => userId.startsWith('poor')
/** A moment in which others get on. */
const moment = () => new Promise((resolve) => setImmediate(resolve))

/** A coupon that can be looked up, points by key, a mail that nobody can take back. */
function careful(world: World): Steps {
  const { coupons, points, mails } = world
  return {
    coupon: {
      name: 'coupon',
      async do(_, { key }) {
        await moment()
        const couponId = `c${++world.made}`
        coupons.set(key, couponId)
        return { status: 'done', data: { couponId } }
      },
      async probe(_, { key }) {
        const couponId = coupons.get(key)
        return couponId ? { status: 'done', data: { couponId } } : { status: 'not-done' }
      },
      async undo(_, { key }) {
        coupons.delete(key)
      },
    },
    points: {
      name: 'points',
      async do(gift, { key }) {
        await moment()
        if (poor(gift)) return refusal
        if (gift.couponId === undefined) throw new Error('no coupon')
        points.set(key, gift.userId)
      },
      async undo(_, { key }) {
        points.delete(key)
      },
    },
    mail: {
      name: 'mail',
      async do(_, { key }) {
        if (!mails.includes(key)) mails.push(key)
      },
    },
  }
}

type Change = (steps: Steps, world: World) => Partial<Steps>

function underTest(change: Change = () => ({})) {
  return async (): Promise<SagaStepsUnderTest<Gift>> => {
    const world = new World()
    const steps = careful(world)
    const { coupon, points, mail } = { ...steps, ...change(steps, world) }
    const definition: SagaDefinition<Gift> = { kind: 'gift', steps: [coupon, points, mail] }
    let users = 0
    return {
      definition,
      data: () => ({ userId: `user-${++users}` }),
      async standing(_, { key }) {
        const all = [...world.coupons.keys(), ...world.points.keys(), ...world.mails]
        return all.filter((k) => k === key || k.startsWith(`${key} `)).length
      },
      refused: { step: 'points', data: () => ({ userId: `poor-${++users}` }) },
      close: async () => {},
    }
  }
}

const ALL = sagaStepsSuite<Gift>(['refuses'])

describe('a careful saga', () => {
  for (const { name, run } of ALL) test(name, () => run(underTest()))
})

const mails: (work: (world: World, key: string) => unknown) => Change = (work) => (_, world) => ({
  mail: { name: 'mail', do: async (_, { key }) => void (await work(world, key)) },
})
const coupons: (some: (steps: Steps, world: World) => Partial<Step>) => Change =
  (some) => (steps, world) => ({ coupon: { ...steps.coupon, ...some(steps, world) } })
const points: (some: (steps: Steps, world: World) => Partial<Step>) => Change =
  (some) => (steps, world) => ({ points: { ...steps.points, ...some(steps, world) } })

const MUTANTS: readonly Mutant<Change>[] = [
  ['a step that does nothing', mails(() => {}), ['every step takes effect once']],
  [
    'data that JSON loses',
    coupons(({ coupon }) => ({
      async do(data, context) {
        await coupon.do(data, context)
        return { status: 'done', data: { couponId: new Date() as never } }
      },
    })),
    ['data that JSON brings back'],
  ],
  [
    'a mail for each try',
    mails(({ mails }, key) => mails.push(key)),
    ['whose answer was lost', 'cut off', 'tried by two holders at once'],
  ],
  [
    'looking first, then sending',
    mails(async ({ mails }, key) => {
      const known = mails.includes(key)
      await moment()
      if (!known) mails.push(key)
    }),
    ['tried by two holders at once'],
  ],
  [
    'a probe without the data',
    coupons(({ coupon }) => ({
      probe: async (data, context) =>
        (await coupon.probe?.(data, context))?.status === 'done'
          ? { status: 'done' }
          : { status: 'not-done' },
    })),
    ['whose answer was lost'],
  ],
  [
    'a probe that knows nothing',
    coupons(() => ({ probe: async () => ({ status: 'unknown' }) })),
    ['whose answer was lost', 'a probe finds nothing before'],
  ],
  [
    'a probe that makes one',
    coupons((_, { coupons }) => ({
      probe: async (_, { key }) => {
        coupons.set(key, 'c')
        return { status: 'done', data: { couponId: 'c' } }
      },
    })),
    ['a probe finds nothing before'],
  ],
  [
    'a cut-off try that is still at it when the next one comes',
    mails(async ({ mails }, key) => {
      if (mails.includes(key)) return
      mails.push(`${key} copy`)
      mails.push(key)
    }),
    ['cut off at once'],
  ],
  [
    'an undo that cannot do it twice',
    points((_, { points }) => ({
      async undo(_, { key }) {
        if (!points.delete(key)) return { status: 'failed', reason: 'not there' }
        return undefined
      },
    })),
    ['again changes nothing', 'undo without probe does no harm', 'undo by two holders'],
  ],
  [
    'an undo that leaves it',
    coupons(() => ({ undo: async () => {} })),
    ['undo takes back', 'turns back at any step'],
  ],
  [
    'an undo of everybody',
    points((_, { points }) => ({ undo: async () => points.clear() })),
    ['undo leaves another saga alone'],
  ],
  [
    'a refusal that leaves something',
    points(({ points: step }, { points }) => ({
      async do(gift, context) {
        points.set(context.key, gift.userId)
        return step.do(gift, context)
      },
    })),
    ['a step that is refused leaves nothing'],
  ],
  [
    'a refusal without a reason',
    points(({ points: step }) => ({
      do: async (gift, context) =>
        poor(gift) ? { status: 'failed', reason: '' } : step.do(gift, context),
    })),
    ['gives a reason'],
  ],
  [
    'a refusal that is forgotten the next time',
    points(({ points: step }) => ({
      do: async (gift, context) => (context.attempt > 1 ? undefined : step.do(gift, context)),
    })),
    ['in whatever try'],
  ],
]

noticed(ALL, MUTANTS, underTest)
