import { relative } from 'node:path'

/** What is read of the report of vitest's JSON reporter. */
export interface VitestReport {
  readonly testResults: readonly {
    readonly name: string
    readonly status: 'passed' | 'failed'
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: 'passed' | 'failed' | 'skipped' | 'pending' | 'todo' | 'disabled'
      readonly fullName: string
    }[]
  }[]
}

export interface Verdict {
  readonly passed: number
  readonly failed: number
  /** A line for each failure that the test runner does not call one. */
  readonly complaints: readonly string[]
}

/**
 * Counts, and counts as failed also what leaves a run green that proves less than it seems to: a skipped test, a file
 * whose tests could not be collected, an error outside of any test, no tests at all.
 */
export function judge(report: VitestReport | null, exitCode: number): Verdict {
  const files = report?.testResults ?? []
  const tests = files.flatMap((file) => file.assertionResults)
  const passed = tests.filter((test) => test.status === 'passed').length
  const failed = tests.filter((test) => test.status === 'failed').length

  const complaints = [
    ...tests
      .filter((test) => test.status !== 'passed' && test.status !== 'failed')
      .map((test) => `not run (${test.status}): ${test.fullName}`),
    ...files
      .filter((file) => file.status === 'failed' && !file.assertionResults.some(isFailed))
      .map((file) => `file failed outside of its tests: ${relative('.', file.name)}`),
  ]
  if (!report) complaints.push('the test runner wrote no report')
  else if (tests.length === 0) complaints.push('no tests ran')
  if (exitCode !== 0 && failed + complaints.length === 0)
    complaints.push(`the test runner ended with ${exitCode}, though no test failed`)
  return { passed, failed: failed + complaints.length, complaints }
}

const isFailed = (test: { readonly status: string }) => test.status === 'failed'

export function closingLine({ passed, failed }: Verdict): string {
  return `${passed} passed, ${failed} failed`
}
