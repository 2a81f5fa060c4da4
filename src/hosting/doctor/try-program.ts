import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askProgram } from './ask-program.ts';
import { type Finding, warning } from './finding.ts';
import type { DoctorPlace } from './place.ts';

/** In `jobs/` only where that is another file system: its names are hidden from a pass. */
export async function tryPrograms(place: DoctorPlace, folder: string): Promise<Finding[]> {
  const jobs = join(place.root, 'jobs');
  if (!existsSync(jobs) || statSync(jobs).dev === statSync(folder).dev) {
    return await tryProgram(place, folder);
  }
  const other = mkdtempSync(join(jobs, '.doctor-'));
  try {
    return await tryProgram(place, other);
  } finally {
    rmSync(other, { recursive: true, force: true });
  }
}

async function tryProgram({ env }: DoctorPlace, folder: string): Promise<Finding[]> {
  const path = join(folder, 'program');
  writeFileSync(path, '#!/bin/sh\n', { mode: 0o755 });
  const { exitCode, failure } = await askProgram([path], { env, timeoutMs: 5000 });
  if (exitCode === 0) return [];
  return [
    warning(
      `no program can be started from here (mounted noexec?): ${failure ?? `exit code ${exitCode}`}`,
      'Keep compiled programs elsewhere and call them from a script; scripts with an interpreter run.',
    ),
  ];
}
