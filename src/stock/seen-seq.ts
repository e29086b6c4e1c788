/** The newest state of each activity that this process has seen: a Redis that answers with less has gone back in time. */
export class SeenSeq {
  private readonly byActivity = new Map<string, { epoch: number; seq: number }>()

  of(activityId: string): { readonly epoch: number; readonly seq: number } {
    return this.byActivity.get(activityId) ?? { epoch: 0, seq: 0 }
  }

  learn(activityId: string, epoch: number, seq: number): void {
    const seen = this.byActivity.get(activityId)
    if (!seen) this.byActivity.set(activityId, { epoch, seq })
    else if (epoch > seen.epoch || (epoch === seen.epoch && seq > seen.seq)) {
      seen.epoch = epoch
      seen.seq = seq
    }
  }
}
