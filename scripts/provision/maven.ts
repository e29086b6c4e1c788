import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { need } from '../../test/harness/binaries.js'
import { run } from './run.js'

/** Puts jars with all they depend on into a folder; `jars` are `group:artifact:version`. */
export function fetchJars(folder: string, jars: readonly string[]): void {
  mkdirSync(folder, { recursive: true })
  const project = join(folder, 'pom.xml')
  writeFileSync(project, pom(jars))
  run(need('mvn'), [
    ...['-B', '-q', '-f', project, 'dependency:copy-dependencies'],
    ...[`-DoutputDirectory=${join(folder, 'lib')}`, '-DincludeScope=runtime'],
  ])
}

function pom(jars: readonly string[]): string {
  const dependencies = jars.map((jar) => {
    const [group, name, version] = jar.split(':')
    return `<dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version></dependency>`
  })
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>
${dependencies.join('\n')}
</dependencies>
</project>
`
}
