import { exampleShop } from '../suites/example-shop.js'

exampleShop({
  file: new URL('../../examples/koa/server.ts', import.meta.url),
  database: 'postgres',
  hasShopTable: false,
  takesPayments: false,
})
