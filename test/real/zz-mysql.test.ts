import { orderBookSuite } from '../suites/order-book.js'
import { idempotency } from '../suites/idempotency.js'
orderBookSuite('mysql')
idempotency('mysql')
