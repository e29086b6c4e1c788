import {
  type ActivityControlUnderTest,
  type ActivityStoreUnderTest,
  activityControlSuite,
  activityStoreSuite,
  MemoryActivityControl,
  MemoryActivityStore,
  MemoryOrderBook,
  type OrderBookUnderTest,
  orderBookSuite,
} from 'flash-sale-kit/testing'
import { describe, test } from 'vitest'
import { knexActivityControl, knexActivityStore, knexOrderBook } from './testing-books.js'

async function memoryOrderBook(): Promise<OrderBookUnderTest> {
  let passed = 0
  const control = new MemoryActivityControl()
  const book = new MemoryOrderBook({ control, clock: () => Date.now() + passed })
  return {
    book,
    another: () => book,
    pay: async (orderNo) => book.pay(orderNo),
    async passTime(ms) {
      passed += ms
    },
    tasks: async () => book.tasks,
    async control(activityId, to) {
      await control.set(activityId, to, { actor: 'suite', reason: 'a test' })
    },
    close: async () => {},
  }
}

async function memoryControl(): Promise<ActivityControlUnderTest> {
  const control = new MemoryActivityControl()
  return {
    control,
    another: () => control,
    audited: async (id) => control.acts.filter((act) => act.activityId === id).length,
    close: async () => {},
  }
}

async function memoryStore(): Promise<ActivityStoreUnderTest> {
  const store = new MemoryActivityStore()
  return { store, put: async (activity) => store.save(activity), close: async () => {} }
}

describe.each([
  ['MemoryOrderBook', memoryOrderBook],
  ['KnexOrderBook on SQLite', () => knexOrderBook('sqlite')],
] as const)('%s', (_, make) => {
  for (const { name, run } of orderBookSuite(['strong'])) test(name, () => run(make))
})

describe.each([
  ['MemoryActivityControl', memoryControl],
  ['KnexActivityControl on SQLite', () => knexActivityControl('sqlite')],
] as const)('%s', (_, make) => {
  for (const { name, run } of activityControlSuite()) test(name, () => run(make))
})

describe('MemoryActivityStore', () => {
  for (const { name, run } of activityStoreSuite()) test(name, () => run(memoryStore))
})

describe('KnexActivityStore on SQLite', () => {
  for (const { name, run } of activityStoreSuite(['settles']))
    test(name, () => run(() => knexActivityStore('sqlite')))
})
