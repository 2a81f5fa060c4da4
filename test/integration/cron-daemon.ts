import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../support/until.ts';

const PID_FILE = '/run/crond.pid';

export interface CronDaemon {
  /** Whether it has sent the mail of all that it has started. */
  isIdle(): boolean;
  stop(): void;
}

/** Debian's cron: the one that runs here, or a new one. */
export async function startCronDaemon(): Promise<CronDaemon> {
  const running = readRunningPid();
  if (running !== null) return { isIdle: () => hasNoChildren(running), stop: () => {} };
  const daemon = spawn('cron', ['-f'], { stdio: 'ignore' });
  await until('cron has started', () => readRunningPid() === daemon.pid);
  const { pid } = daemon as ChildProcess & { readonly pid: number };
  return { isIdle: () => hasNoChildren(pid), stop: () => void daemon.kill() };
}

function readRunningPid(): number | null {
  try {
    const pid = Number(readFileSync(PID_FILE, 'utf8'));
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'cron' ? pid : null;
  } catch {
    return null;
  }
}

function hasNoChildren(pid: number): boolean {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8') === '';
}

export interface MailCatcher {
  /** Each mail with its head, in no order. */
  readMails(): string[];
  remove(): void;
}

const SENDMAIL = '/usr/sbin/sendmail';

/** Stands in for the machine's mail program, which cron calls by this path as the crontab's user. */
export function catchMail(): MailCatcher {
  const folder = mkdtempSync(join(tmpdir(), 'cron-mail-'));
  chmodSync(folder, 0o1777);
  // Fails where there is one, which .ci/run hides: its mails would go to somebody.
  writeFileSync(SENDMAIL, `#!/bin/sh\numask 022\ncat >"$(mktemp ${folder}/XXXXXX)"\n`, { flag: 'wx', mode: 0o755 });
  return {
    readMails: () => readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8')),
    remove: () => {
      rmSync(SENDMAIL);
      rmSync(folder, { recursive: true });
    },
  };
}
