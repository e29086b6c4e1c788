import { describe, expect, it } from 'vitest'
import { closingLine, judge, type VitestReport } from '../../scripts/verdict.js'

type Status = VitestReport['testResults'][number]['assertionResults'][number]['status']

const file = (status: 'passed' | 'failed', ...tests: Status[]) => ({
  name: 'some.test.ts',
  status,
  message: '',
  assertionResults: tests.map((each, i) => ({ status: each, fullName: `test ${i}` })),
})
const run = (...testResults: VitestReport['testResults'][number][]): VitestReport => ({
  testResults,
})

describe('the closing line of npm test', () => {
  it.each([
    ['all is well', run(file('passed', 'passed', 'passed')), 0, '2 passed, 0 failed'],
    ['a test failed', run(file('failed', 'passed', 'failed')), 1, '1 passed, 1 failed'],
    ['a test was skipped', run(file('passed', 'passed', 'skipped')), 0, '1 passed, 1 failed'],
    ['a test is still to do', run(file('passed', 'passed', 'todo')), 0, '1 passed, 1 failed'],
    [
      'a file was not collected',
      run(file('passed', 'passed'), file('failed')),
      1,
      '1 passed, 1 failed',
    ],
    ['a hook failed after the tests', run(file('failed', 'passed')), 1, '1 passed, 1 failed'],
    ['an error came from outside', run(file('passed', 'passed')), 1, '1 passed, 1 failed'],
    ['nothing ran', run(), 0, '0 passed, 1 failed'],
    ['the runner died', null, 137, '0 passed, 1 failed'],
  ] as const)('when %s', (_, report, exitCode, line) => {
    expect(closingLine(judge(report, exitCode))).toBe(line)
  })
})
