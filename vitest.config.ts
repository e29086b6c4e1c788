import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const src = fileURLToPath(new URL('./src/', import.meta.url))

export default defineConfig({
  resolve: {
    // Tests and examples import the package by its name, as a host does; the same map is `paths` in tsconfig.json.
    alias: [
      { find: /^flash-sale-kit$/, replacement: `${src}index.ts` },
      { find: /^flash-sale-kit\/knex$/, replacement: `${src}order/knex/index.ts` },
      { find: /^flash-sale-kit\/([a-z]+)$/, replacement: `${src}$1/index.ts` },
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
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'real',
          include: ['test/real/**/*.test.ts'],
          globalSetup: ['test/harness/global-setup.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
