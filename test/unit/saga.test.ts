import { sagaSuite } from '../suites/saga.js'

sagaSuite('sqlite')
