import { outboxSuite } from '../suites/outbox.js'

outboxSuite('sqlite')
