/** A process of the host. Once it has crashed, nothing of it goes on: it hears no answer, and sends nothing more. */
export class SimProcess {
  dead = false

  constructor(readonly name: string) {}
}

/** What can go wrong with a call: the caller is answered, or never is. */
export interface CallFault<T> {
  readonly name: string
  /** How often it is done, now. */
  readonly done: 0 | 1
  /** Done once more, at some later time. */
  readonly again?: true
  readonly answer?: () => T
  readonly fails?: () => unknown
}

/** A call on its way: sent, then done, then answered. */
export interface Call {
  readonly process: SimProcess
  /** For the trace. */
  readonly label: () => string
  readonly faults: readonly CallFault<unknown>[]
  readonly act: () => unknown
  /** Absent when nobody waits for the answer (any more). */
  readonly settle?: {
    readonly resolve: (value: unknown) => void
    readonly reject: (error: unknown) => void
  }
  /** Set once it was done: hands the answer over. */
  answer?: () => void
}

/** Calls under way between the processes and what they share. */
export class Calls {
  pending: Call[] = []

  send<T>(
    process: SimProcess,
    label: () => string,
    act: () => T,
    faults: readonly CallFault<unknown>[],
  ): Promise<T> {
    if (process.dead) return new Promise(() => {})
    return new Promise<T>((resolve, reject) => {
      const settle = { resolve: resolve as (value: unknown) => void, reject }
      this.pending.push({ process, label, faults, act, settle })
    })
  }

  /** Does the call; its answer stays under way, or is given at once. */
  perform(call: Call, how: 'at once' | 'slowly' | CallFault<unknown>): void {
    this.pending = this.pending.filter((c) => c !== call)
    const { settle, process } = call
    const give = (answer: () => void) => {
      if (!process.dead) answer()
    }
    if (typeof how === 'object') {
      if (how.done === 1) attempt(call.act)
      if (how.again) this.pending.push({ ...call, settle: undefined } as unknown as Call)
      if (how.answer) give(() => settle?.resolve((how.answer as () => unknown)()))
      if (how.fails) give(() => settle?.reject((how.fails as () => unknown)()))
      return
    }
    const outcome = attempt(call.act)
    const answer = () =>
      give(() =>
        'error' in outcome ? settle?.reject(outcome.error) : settle?.resolve(outcome.value),
      )
    if (how === 'at once' || !settle) answer()
    else this.pending.push({ ...call, answer })
  }

  hear(call: Call): void {
    this.pending = this.pending.filter((c) => c !== call)
    call.answer?.()
  }

  /** What it was told is lost with it; what it has sent may still arrive. */
  crash(process: SimProcess): void {
    process.dead = true
    this.pending = this.pending.filter((c) => c.process !== process || !c.answer)
  }
}

function attempt(act: () => unknown): { readonly value: unknown } | { readonly error: unknown } {
  try {
    return { value: act() }
  } catch (error) {
    return { error }
  }
}
