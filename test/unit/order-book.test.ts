import { orderBookSuite } from '../suites/order-book.js'

orderBookSuite('sqlite')
