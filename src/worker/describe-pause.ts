import { EVERYTHING, type Pause } from '../queue/pauses.ts';

/** "hourly is paused until 2026-11-01T10:00:00.000Z" */
export function describePause({ name, until }: Pause): string {
  const what = name === EVERYTHING ? 'everything' : name;
  const resume = name === EVERYTHING ? 'runner resume' : `runner resume ${name}`;
  const end = until === null ? `until \`${resume}\`` : `until ${new Date(until).toISOString()}`;
  return `${what} is paused ${end}`;
}
