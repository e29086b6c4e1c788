import { exampleShop } from '../suites/example-shop.js'

exampleShop({
  file: new URL('../../examples/express/server.ts', import.meta.url),
  database: 'mariadb',
  hasShopTable: true,
  takesPayments: true,
})
