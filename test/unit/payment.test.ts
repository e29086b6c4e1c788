import { paymentSuite } from '../suites/payment.js'

paymentSuite('sqlite')
