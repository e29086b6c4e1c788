import { paymentSuite } from '../suites/payment.js'

for (const kind of ['mariadb', 'mysql', 'postgres'] as const) paymentSuite(kind)
