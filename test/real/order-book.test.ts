import { orderBookSuite } from '../suites/order-book.js'

for (const kind of ['mariadb', 'postgres'] as const) orderBookSuite(kind)
