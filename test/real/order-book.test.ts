import { orderBookSuite } from '../suites/order-book.js'

for (const kind of ['mariadb', 'mysql', 'postgres'] as const) orderBookSuite(kind)
