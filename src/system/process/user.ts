import { userInfo } from 'node:os';

/** The user whose rights this process has: `ada`; `user 1000` if the host has no name for it. */
export function userName(): string {
  const unnamed = `user ${process.geteuid?.()}`;
  try {
    return userInfo().username || unnamed;
  } catch {
    return unnamed;
  }
}
