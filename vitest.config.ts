import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const src = fileURLToPath(new URL('./src/', import.meta.url))

/** Files that start a RocketMQ or a Kafka; `scripts/test.ts` knows them by the same words. */
const BROKER_FILES = 'test/real/**/*{broker,rocketmq,kafka}*.test.ts'

/** Whole sales with processes of their own, and races: beside another file they would be about the machine's load. */
const ALONE =
  'test/real/{chaos-*,crash,payment-race,rate-cap-processes,sim-seeds,whole-sale}.test.ts'

const real = {
  globalSetup: ['test/harness/global-setup.ts'],
  testTimeout: 60_000,
  hookTimeout: 60_000,
}

export default defineConfig({
  resolve: {
    // Tests and examples import the package by its name, as a host does; the same map is `paths` in tsconfig.json.
    alias: [
      { find: /^flash-sale-kit$/, replacement: `${src}index.ts` },
      { find: /^flash-sale-kit\/knex$/, replacement: `${src}knex/index.ts` },
      { find: /^flash-sale-kit\/([a-z-]+)$/, replacement: `${src}$1/index.ts` },
    ],
  },
  test: {
    // Two cores are the machine this must run on; more workers only add waiting to the figures of timing tests.
    maxWorkers: 2,
    allowOnly: false,
    setupFiles: ['test/harness/leftovers.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          // For what hangs, and not for what is slow: starting a process takes seconds on a machine with other work.
          testTimeout: 30_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'real',
          include: ['test/real/**/*.test.ts'],
          exclude: [BROKER_FILES, ALONE],
          ...real,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'brokers',
          include: [BROKER_FILES, ALONE],
          ...real,
          // One after the other: a JVM that starts takes both cores for seconds, and twice the memory is no gain either.
          maxWorkers: 1,
          // A start takes 3 s on two quiet cores, and 20 s where they have much else to do.
          testTimeout: 180_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
