/** The C library that this Node runs on. */
export interface Libc {
  /** `glibc 2.28` or `musl`. */
  readonly name: string;
  /** `2.28`; null for musl. */
  readonly glibcVersion: string | null;
}

export function readLibc(): Libc {
  // Else a report asks the name server for each open connection, which can take a minute.
  Object.assign(process.report, { excludeNetwork: true });
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  const glibcVersion = report.header?.glibcVersionRuntime ?? null;
  return { glibcVersion, name: glibcVersion === null ? 'musl' : `glibc ${glibcVersion}` };
}
