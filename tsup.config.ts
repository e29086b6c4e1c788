import { defineConfig } from 'tsup'

/** One entry for each subpath of `exports` in package.json; the names must agree. */
export default defineConfig({
  entry: {
    index: 'src/index.ts',
    knex: 'src/knex/index.ts',
    http: 'src/http/index.ts',
    express: 'src/express/index.ts',
    koa: 'src/koa/index.ts',
    'redis-streams': 'src/redis-streams/index.ts',
    kafka: 'src/kafka/index.ts',
    rocketmq: 'src/rocketmq/index.ts',
    testing: 'src/testing/index.ts',
  },
  format: ['esm', 'cjs'],
  target: 'node20',
  dts: true,
  clean: true,
  sourcemap: true,
  // Shared chunks, so that an error thrown under one subpath is an instance of the class exported by another.
  splitting: true,
  treeshake: true,
})
