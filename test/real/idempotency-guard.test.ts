import { idempotency } from '../suites/idempotency.js'

idempotency('mariadb')
idempotency('postgres')
idempotency('mysql')
