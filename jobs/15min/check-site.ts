/**
 * @description Checks that your sites answer, in time, with the right text and a certificate that lasts.
 * @timeout 5m
 * @tags site
 * @env CHECK_URL CHECK_STATUS CHECK_TEXT CHECK_WITHIN_SECONDS CHECK_CERTIFICATE_DAYS
 *
 * Set by environment variables, in runner.config.js or in the crontab:
 *   CHECK_URL               addresses, separated by spaces: https://example.org/ https://shop.example.org/
 *   CHECK_STATUS            the status they must answer with (default 200)
 *   CHECK_TEXT              text that must be in the page (default: any page will do)
 *   CHECK_WITHIN_SECONDS    how long the whole page may take (default 10)
 *   CHECK_CERTIFICATE_DAYS  how many more days the certificate must be valid (default 14)
 */
import { get as getHttp, type IncomingMessage } from 'node:http';
// Not fetch: it needs WebAssembly, which fails under the memory limits of some hosts.
import { get as getHttps } from 'node:https';
import type { TLSSocket } from 'node:tls';
import type { JobContext } from 'folder-runner';

const DAY_MS = 86_400_000;
const MAX_PAGE_BYTES = 1_000_000;

const urls = (process.env.CHECK_URL ?? '').split(/\s+/).filter((url) => url !== '');
const expectedStatus = numberFrom('CHECK_STATUS', 200);
const expectedText = process.env.CHECK_TEXT ?? '';
const withinSeconds = numberFrom('CHECK_WITHIN_SECONDS', 10);
const certificateDays = numberFrom('CHECK_CERTIFICATE_DAYS', 14);

export default async function checkSites({ signal }: JobContext): Promise<void> {
  if (urls.length === 0) {
    console.log('Nothing is checked: set CHECK_URL to the address of your site.');
    return;
  }
  const problems: string[] = [];
  for (const url of urls) problems.push(...(await checkSite(url, signal)));
  if (problems.length > 0) throw new Error(problems.join('\n'));
}

/** Every site is checked, also after one has failed. */
async function checkSite(url: string, signal: AbortSignal): Promise<string[]> {
  const start = performance.now();
  const timeLimit = AbortSignal.timeout(withinSeconds * 1000);
  try {
    const page = await readPage(url, AbortSignal.any([signal, timeLimit]));
    const problems = problemsOf(page).map((problem) => `${url} ${problem}`);
    if (problems.length === 0) console.log(`${url} answered in ${elapsed(start)}`);
    return problems;
  } catch (error) {
    signal.throwIfAborted();
    if (timeLimit.aborted) return [`${url} did not answer fully within ${withinSeconds} s`];
    return [`${url} did not answer: ${describe(error)}`];
  }
}

interface Page {
  readonly status: number;
  readonly location: string | undefined;
  readonly text: string;
  /** Null for an address without TLS. */
  readonly certificateEnd: Date | null;
}

function problemsOf(page: Page): string[] {
  const problems: string[] = [];
  if (page.status !== expectedStatus) {
    const target = page.location === undefined ? '' : ` and sends visitors to ${page.location}`;
    problems.push(`answered with status ${page.status}, not ${expectedStatus}${target}`);
  } else if (!page.text.includes(expectedText)) {
    problems.push(`answered without the text ${JSON.stringify(expectedText)}`);
  }
  if (page.certificateEnd !== null) problems.push(...certificateProblems(page.certificateEnd));
  return problems;
}

function certificateProblems(end: Date): string[] {
  const daysLeft = Math.floor((end.getTime() - Date.now()) / DAY_MS);
  if (daysLeft >= certificateDays) return [];
  const date = end.toISOString().slice(0, 10);
  return [`has a certificate that ends on ${date}, in ${daysLeft} days: renew it`];
}

function readPage(url: string, signal: AbortSignal): Promise<Page> {
  const get = new URL(url).protocol === 'http:' ? getHttp : getHttps;
  const headers = { 'user-agent': 'folder-runner check-site' };
  return new Promise((resolve, reject) => {
    get(url, { agent: false, signal, headers }, (response) => {
      // Asked for now: the socket is gone once the page has been read.
      const certificateEnd = certificateEndOf(response);
      readText(response).then(
        (text) =>
          resolve({
            status: response.statusCode ?? 0,
            location: response.headers.location,
            text,
            certificateEnd,
          }),
        reject,
      );
    }).on('error', reject);
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_PAGE_BYTES) break;
  }
  return Buffer.concat(chunks).toString();
}

function certificateEndOf(response: IncomingMessage): Date | null {
  const socket = response.socket as Partial<TLSSocket>;
  const certificate = socket.getPeerCertificate?.();
  return certificate === undefined ? null : new Date(certificate.valid_to);
}

function describe(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  // A host with several addresses fails with an AggregateError, whose message is empty.
  return message || code || String(error);
}

function elapsed(start: number): string {
  return `${((performance.now() - start) / 1000).toFixed(2)} s`;
}

function numberFrom(name: string, otherwise: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  const number = Number(text);
  if (number >= 0) return number;
  throw new Error(`${name} must be a number such as ${otherwise}, but is ${JSON.stringify(text)}.`);
}
