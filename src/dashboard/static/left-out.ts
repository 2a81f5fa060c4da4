/** Stands where a report of a file leaves out what a script has said. */
export const LEFT_OUT = 'left out of this report';

/** What scripts print, count and are checked for, and what jobs carry: gone, whatever answer it is in. */
const unsaid = new Set([
  'output',
  'difference',
  'data',
  'result',
  'parentData',
  'uniqueKey',
  'group',
  'detail',
  'progress',
  'counts',
  'deviations',
  'unusual',
  'expect',
  'failOn',
  'ignored',
]);

/** What hints and options of scripts may hold: URLs that whoever knows them may call. */
const secret = new Set(['ping', 'environment', 'env']);

/** Of these, what the runner itself says stays. */
const sayings = new Set(['reason', 'warning', 'lastError', 'message', 'error', 'summary']);

/** A pass has no words of a script: "another pass of hourly is running". */
const ofPasses = new Set(['lastPass', 'lastSkippedPass', 'holder']);

/** How the runner says that a run has ended; what a script says of it follows, or stands in its place. */
const ownWords = new RegExp(
  '^(exit code 0, but its output tells of a failure|exit code -?\\d+|timed out after [\\w. ]+ \\(limit [\\w. ' +
    ']+\\)|stopped because the runner was stopped \\(Ctrl-C or kill\\)|used [\\w. ]+ of resident memory' +
    "|heap limit of [\\w. ]+ reached|V8's heap limit reached|killed by SIG[A-Z\\d]+|ran into its time limit" +
    '|the runner \\([\\w ,.-]+\\) died while it ran)',
);

/**
 * An answer of the API without what scripts have printed or thrown, and what jobs carry: a page that others may see
 * says that something failed, when and how often, not what was said of it.
 *
 * @param key where it stands, as objects of one kind are kept
 */
export function leaveOut(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) return value.map((each) => leaveOut(each, key));
  if (typeof value === 'string') return withoutParameters(value);
  if (typeof value !== 'object' || value === null) return value;
  if (ofPasses.has(key)) return value;
  const isFinding = 'code' in value && !isOfRuns(value.code);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, leaveOutField(name, each, isFinding)]));
}

function leaveOutField(name: string, value: unknown, isFinding: boolean): unknown {
  if (secret.has(name) || unsaid.has(name)) return emptied(value);
  if (name === 'error' && isThrown(value)) return { name: LEFT_OUT, message: LEFT_OUT, stack: '' };
  if (name === 'stack') return typeof value === 'string' ? '' : null;
  if (!sayings.has(name) || isFinding) return leaveOut(value, name);
  return typeof value === 'string' ? (ownWords.exec(value)?.[0] ?? LEFT_OUT) : leaveOut(value, name);
}

function isThrown(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'stack' in value;
}

/** The name of a job says what the job is of: `invoice?customer=4711`. */
function withoutParameters(text: string): string {
  return /^[\w./-]+\?\S*$/.test(text) ? text.slice(0, text.indexOf('?')) : text;
}

/** What a check finds is in the runner's words, unless it is about runs that failed. */
function isOfRuns(code: unknown): boolean {
  return code === 'script-failing' || code === 'script-warning' || code === 'jobs-failing' || typeof code !== 'string';
}

/** Of the same kind, so that the page needs no other way for it. */
function emptied(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  if (typeof value === 'object' && value !== null) return {};
  return typeof value === 'string' ? '' : null;
}
