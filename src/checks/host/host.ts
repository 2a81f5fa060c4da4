import { existsSync, readdirSync, statSync } from 'node:fs';
import { totalmem } from 'node:os';
import { INSTALL_IN_ROOT, reasonToVanish } from '../../hosting/crontab/plan.ts';
import { critical, type Found, note, ok, warning } from '../../monitor/finding.ts';
import { findDriver } from '../../store/sqlite/driver.ts';
import { countOf, formatBytes, formatSpan } from '../../system/base/format.ts';
import { capitalized } from '../../system/base/text.ts';
import { hostZone, machineZone } from '../../system/base/zone.ts';
import { findOwnNode, findSendmail } from '../../system/process/programs.ts';
import { listProcesses } from './probes.ts';
import type { DoctorPlace, HostCheck } from './site.ts';

/** The owner of a Node installation, by the path of Node. */
const sources: readonly (readonly [RegExp, string])[] = [
  [/\/nodevenv\//, "nodevenv, the panel's Node selector"],
  [/^\/opt\/alt\/alt-nodejs/, "CloudLinux's"],
  [/^\/opt\/cpanel\/ea-nodejs/, "cPanel's EasyApache"],
  [/^\/opt\/plesk\/node\//, "Plesk's"],
  [/\/\.nvm\//, 'nvm'],
  [/\/\.?fnm/, 'fnm'],
  [/\/\.volta\//, 'Volta'],
  [/\/(?:\.asdf|mise)\//, 'asdf or mise'],
  [/\/(?:Cellar|homebrew)\//, 'Homebrew'],
  [/\/node_modules\//, 'the npm package node'],
  [/^\/(?:usr\/local|usr|snap)\//, "the system's"],
];

export const checkNode: HostCheck = {
  code: 'node',
  run: ({ commandPath }) => {
    const path = findOwnNode();
    const source = sources.find(([form]) => form.test(path))?.[1];
    const from = source === undefined ? '' : ` (${source})`;
    const { glibcVersion } = readNodeReport();
    const libc = glibcVersion === null ? 'musl' : `glibc ${glibcVersion}`;
    return [ok(`${process.version} at ${path}${from}, ${libc}`), ...findVanishing(commandPath)];
  },
};

function findVanishing(commandPath: string): Found[] {
  const why = reasonToVanish(commandPath);
  return why === null ? [] : [note(`the command ${why}`, capitalized(INSTALL_IN_ROOT))];
}

/** The soft limits of this process (`ulimit`); null: none. */
interface ProcessLimits {
  readonly processes: number | null;
  readonly addressSpaceBytes: number | null;
  readonly fileBytes: number | null;
  readonly openFiles: number | null;
  readonly cpuSeconds: number | null;
}

/** The part that is used of what Node reports of its own process. */
interface NodeReport {
  readonly header: { readonly glibcVersionRuntime?: string };
  readonly userLimits: Readonly<Record<string, { readonly soft: number | 'unlimited' }>>;
}

function readNodeReport() {
  // Without this, the report asks the name server for each open connection, which can take a minute.
  Object.assign(process.report, { excludeNetwork: true });
  const { header, userLimits } = process.report.getReport() as NodeReport;
  const soft = (name: string): number | null => {
    const limit = userLimits[name]?.soft;
    return typeof limit === 'number' ? limit : null;
  };
  const limits: ProcessLimits = {
    processes: soft('max_user_processes'),
    addressSpaceBytes: soft('virtual_memory_bytes'),
    // In bytes, whatever it is called.
    fileBytes: soft('file_size_blocks'),
    openFiles: soft('open_files'),
    cpuSeconds: soft('cpu_time_seconds'),
  };
  return { glibcVersion: header.glibcVersionRuntime ?? null, limits };
}

/** The version of the C library that the binary of better-sqlite3 is built for. */
const GLIBC_OF_BETTER = '2.34';

export const checkSqlite: HostCheck = {
  code: 'sqlite',
  run: async () => {
    const found = await findDriver().catch(describeNoDriver);
    if ('status' in found) return [found];
    const { driver, reasonAgainstBetter } = found;
    if (reasonAgainstBetter === null) return [ok(driver.name)];
    return [
      note(
        `${driver.name}, as better-sqlite3 cannot be used: ${reasonAgainstBetter}`,
        isLibcOld()
          ? `Nothing needs to be done: it asks for glibc ${GLIBC_OF_BETTER}, and Node’s own driver does the same.`
          : 'Nothing needs to be done: Node’s own driver does the same; `npm install folder-runner` brings the other back.',
      ),
    ];
  },
};

function describeNoDriver(error: Error): Found {
  return critical(
    `neither better-sqlite3 nor node:sqlite can be loaded, so passes run without a log: ${error.message}`,
    'Install the package again for this Node (`npm install folder-runner`), or use a Node that has `node:sqlite`.',
  );
}

function isLibcOld(): boolean {
  const { glibcVersion } = readNodeReport();
  if (glibcVersion === null) return false;
  return glibcVersion.localeCompare(GLIBC_OF_BETTER, 'en', { numeric: true }) < 0;
}

/** Clocks of hosts differ by seconds; more is wrong. */
const TOLERATED_MS = 60_000;

export const checkClock: HostCheck = {
  code: 'clock',
  run: async (place) => [
    ok(`${describeTime(place.nowMs)} (${hostZone()})`),
    ...compareZones(),
    ...compareWithCommand(place),
    ...(await compareWithLog(place)),
  ],
};

/** `2026-11-03 14:05:09 +01:00` */
function describeTime(nowMs: number): string {
  const minutes = -new Date(nowMs).getTimezoneOffset();
  const local = new Date(nowMs + minutes * 60_000).toISOString();
  const pad = (count: number): string => String(Math.floor(Math.abs(count))).padStart(2, '0');
  const offset = `${minutes < 0 ? '-' : '+'}${pad(minutes / 60)}:${pad(minutes % 60)}`;
  return `${local.slice(0, 10)} ${local.slice(11, 19)} ${offset}`;
}

/** Cron goes by the machine's zone, whatever the settings say. */
function compareZones(): Found[] {
  const [zone, machine] = [hostZone(), machineZone()];
  if (process.env.TZ === undefined || machine === null || zone === machine) return [];
  return [
    note(
      `timezone is ${zone} in the settings, while cron calls by the machine's zone, ${machine}`,
      `Read the times of crontab lines as ${machine}.`,
    ),
  ];
}

function compareWithCommand({ commandPath, nowMs }: DoctorPlace): Found[] {
  const ahead = statSync(commandPath).mtimeMs - nowMs;
  return ahead > TOLERATED_MS ? [wrongClock(`the file of this command is ${formatSpan(ahead)} newer than now`)] : [];
}

async function compareWithLog({ log, nowMs }: DoctorPlace): Promise<Found[]> {
  const newest = (await log()).facts?.newestAt ?? null;
  if (newest === null || newest - nowMs <= TOLERATED_MS) return [];
  return [wrongClock(`the newest entry of the log is ${formatSpan(newest - nowMs)} ahead of now`)];
}

function wrongClock(how: string): Found {
  return critical(
    `the clock is or was wrong: ${how}`,
    'Ask the host to set the clock by NTP; if it is right now, this goes away by itself.',
  );
}

const GIGABYTE = 1024 ** 3;

/** A runner and one Node script have 11 threads each, and Linux counts threads. */
const THREADS_OF_A_PASS = 24;

export const checkLimits: HostCheck = {
  code: 'limits',
  run: () => {
    const { limits } = readNodeReport();
    const findings = [...judgeProcesses(limits), ...judgeOtherLimits(limits)];
    return findings.length > 0 ? findings : [ok(describeLimits(limits))];
  },
};

function describeLimits({ processes, openFiles }: ProcessLimits): string {
  const said = (count: number | null): string => count?.toLocaleString('en') ?? 'any number of';
  return `${said(processes)} processes, ${said(openFiles)} open files, no other limit that matters`;
}

/** Near the limit Node does not fail at its start: it hangs. */
function judgeProcesses({ processes }: ProcessLimits): Found[] {
  // The kernel does not hold root to it.
  if (processes === null || process.getuid?.() === 0) return [];
  const own = listProcesses().filter(({ uid }) => uid === process.getuid?.());
  const threads = own.reduce((sum, each) => sum + each.threads, 0);
  const free = processes - threads;
  const found = `${countOf(processes, 'process', 'processes')} and threads allowed, ${threads} in use now`;
  if (free < THREADS_OF_A_PASS) {
    return [
      critical(
        `${found}: Node hangs or fails at its start where fewer than ${THREADS_OF_A_PASS} are free`,
        'End processes that you do not need, keep `concurrency` at 1, or ask the host for a higher limit of ' +
          'processes.',
      ),
    ];
  }
  if (free >= 3 * THREADS_OF_A_PASS) return [];
  const cure = 'Keep `concurrency` at 1; `limits: { maxProcesses }` in the settings lets a pass wait.';
  return [note(found, cure)];
}

function judgeOtherLimits(limits: ProcessLimits): Found[] {
  const { addressSpaceBytes, fileBytes, openFiles, cpuSeconds } = limits;
  const findings: Found[] = [];
  const warn = (found: string, cure: string) => void findings.push(warning(found, cure));
  if (addressSpaceBytes !== null && addressSpaceBytes < 4 * GIGABYTE) {
    warn(
      `virtual memory is limited to ${formatBytes(addressSpaceBytes)}: Node 24 needs 1.2GB to start, and fetch and WebAssembly more`,
      'Ask the host to lift the limit of virtual memory (`ulimit -v`), which says little about real use.',
    );
  }
  if (fileBytes !== null && fileBytes < GIGABYTE) {
    const most = Math.max(1, Math.floor(fileBytes / 2 / 1024 ** 2));
    warn(
      `no file may be larger than ${formatBytes(fileBytes)}, the activity log included`,
      `Set \`retention: { maxDatabaseSize: '${most}mb' }\` in the settings.`,
    );
  }
  if (openFiles !== null && openFiles < 128) {
    warn(
      `only ${openFiles} files may be open at once`,
      'Raise it with `ulimit -n 1024` before the command in the crontab line, or ask the host.',
    );
  }
  if (cpuSeconds !== null) {
    warn(
      `a process is ended after ${formatSpan(cpuSeconds * 1000)} of CPU time`,
      'Split long scripts into parts; `@retries 1` runs one again that was ended.',
    );
  }
  return findings;
}

/** A runner with one Node script takes about as much. */
const LEAST_BYTES = 150 * 1024 ** 2;

export const checkMemory: HostCheck = {
  code: 'memory',
  run: () => {
    const [total, available] = [totalmem(), process.availableMemory()];
    // Without /proc nobody knows.
    if (available === 0) return [ok(`${formatBytes(total)} in all; how much is available is unknown`)];
    const limit = process.constrainedMemory();
    const isLimited = limit > 0 && limit < total;
    const found = isLimited
      ? `${formatBytes(available)} available of the ${formatBytes(limit)} that the account may use`
      : `${formatBytes(available)} available of ${formatBytes(total)}`;
    if (available >= LEAST_BYTES) return [ok(found)];
    return [
      warning(
        `only ${found}: a Node script with its runner takes about 100MB`,
        "Set `@memory` in scripts, `limits: { minFreeMemory: '150mb' }` in the settings, or ask for more memory.",
      ),
    ];
  },
};

export const checkProc: HostCheck = {
  code: '/proc',
  run: () => {
    if (!existsSync('/proc/self/stat')) {
      return [
        note(
          'not available: memory and CPU time are known for Node scripts only, and dead processes are recognized by ' +
            'the age of their locks',
          'Nothing needs to be done; a host that mounts /proc makes the figures complete.',
        ),
      ];
    }
    const visible = existsSync('/proc/1/stat')
      ? 'all processes are visible'
      : 'only your own processes are visible, which is enough';
    return [ok(`available; ${visible}`), ...findChildrenFile()];
  },
};

/** A kernel without CONFIG_PROC_CHILDREN. */
function findChildrenFile(): Found[] {
  const thread = readdirSync('/proc/self/task')[0];
  if (existsSync(`/proc/self/task/${thread}/children`)) return [];
  return [
    note(
      'the kernel does not list the children of a process: of scripts that start others, only the first process is measured',
      'Nothing needs to be done.',
    ),
  ];
}

export const checkSendmail: HostCheck = {
  code: 'sendmail',
  run: ({ env }) => {
    const path = findSendmail(env);
    if (path !== null) return [ok(path)];
    return [
      note(
        'none: cron cannot mail what a pass prints about failures',
        'Look at `npx folder-runner report` now and then, or ask the host how cron mails are sent.',
      ),
    ];
  },
};
