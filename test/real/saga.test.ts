import { sagaSuite } from '../suites/saga.js'

for (const kind of ['mariadb', 'mysql', 'postgres'] as const) sagaSuite(kind)
