import { askProgram } from './ask-program.ts';

export interface Quota {
  readonly device: string;
  readonly used: number;
  /** The lower one of the soft and the hard limit. */
  readonly limit: number;
  readonly unit: 'bytes' | 'files';
}

/** `-p` fills the columns of grace times, without which nobody can tell which number is which. */
const QUOTA = ['quota', '-w', '-p'] as const;

/** What the `quota` command tells; null where there is none, or it says nothing that is understood. */
export async function readQuotas(env: NodeJS.ProcessEnv): Promise<readonly Quota[] | null> {
  // It exits 1 when a quota is used up, so the exit code says nothing about the answer.
  const { stdout, failure } = await askProgram(QUOTA, {
    env: { ...env, LC_ALL: 'C' },
    timeoutMs: 5000,
  });
  if (failure !== null) return null;
  if (/^Disk quotas for .*: none\s*$/m.test(stdout)) return [];
  const quotas = stdout.split('\n').flatMap(parseLine);
  return quotas.length === 0 ? null : quotas;
}

/** `/dev/sda1 12345* 10000 12000 1700000000 100 0 0 0`: kilobytes, then files; `*` marks what is used up. */
const line = /^\s*(\S+)\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s*$/;

function parseLine(text: string): Quota[] {
  const [, device = '', ...figures] = line.exec(text) ?? [];
  if (device === '') return [];
  const [kilobytes = 0, softSize = 0, hardSize = 0, files = 0, softFiles = 0, hardFiles = 0] =
    figures.map(Number);
  const quotas: readonly Quota[] = [
    { device, used: kilobytes * 1024, limit: lower(softSize, hardSize) * 1024, unit: 'bytes' },
    { device, used: files, limit: lower(softFiles, hardFiles), unit: 'files' },
  ];
  return quotas.filter(({ limit }) => limit > 0);
}

/** 0 stands for no limit. */
function lower(soft: number, hard: number): number {
  return soft === 0 || hard === 0 ? Math.max(soft, hard) : Math.min(soft, hard);
}
