import { type Scenario, type Size, USUAL } from './scenario.js'
import { type Ground, Stage } from './stage.js'
import { judge, type Verdict } from './verdict.js'

let plays = 0

/** One scenario from an opened sale to its verdict. */
export async function play(
  scenario: Scenario,
  ground: Ground,
  size: Partial<Size> = {},
): Promise<Verdict> {
  const name = `${scenario.name}-${process.pid}-${++plays}`
  const stage = await Stage.open(scenario, ground, { ...USUAL, ...scenario.size, ...size }, name)
  try {
    const crowd = stage.crowd.run()
    await scenario.run(stage).catch((error: unknown) => stage.expect(false, `${error}`))
    await crowd
    stage.channels.calm()
    stage.expect(await stage.crowd.late(), 'nobody could buy any more')
    return await judge(stage, { dropsAnswers: scenario.dropsAnswers ?? false })
  } finally {
    await stage.close()
  }
}
