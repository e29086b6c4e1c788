import { outboxSuite } from '../suites/outbox.js'

for (const kind of ['mariadb', 'mysql', 'postgres'] as const) outboxSuite(kind)
