import { printableLine } from '../../../../system/base/text.ts';

/** A row has room for so much. */
const MOST_FIELDS = 3;
const LONGEST_VALUE = 60;

/** The first short values of a job's data, with the searched text marked. */
export function JobAbout({ data, search }: { readonly data: unknown; readonly search: string | undefined }) {
  const all = fieldsOf(data);
  const found = search ? all.filter((field) => contains(field.join(' '), search)) : [];
  const shown = [...new Set([...found, ...all])].slice(0, MOST_FIELDS);
  if (shown.length === 0) return null;
  return (
    <span class="job-about small">
      {shown.map(([key, value]) => (
        <bdi key={key}>
          {key !== '' && <span class="quiet">{key} </span>}
          <Marked text={value} mark={search} />{' '}
        </bdi>
      ))}
    </span>
  );
}

type ShownField = readonly [key: string, value: string];

/** Short values only: what is long or deep stands on the job's page. */
function fieldsOf(data: unknown, path = ''): ShownField[] {
  if (Array.isArray(data) || data === null) return [];
  if (typeof data === 'object') {
    return Object.entries(data).flatMap(([key, value]) =>
      typeof value === 'object' && path !== '' ? [] : fieldsOf(value, path === '' ? key : `${path}.${key}`),
    );
  }
  const text = String(data);
  // A longer number has lost digits in the browser.
  const isWhole = typeof data !== 'number' || Math.abs(data) <= Number.MAX_SAFE_INTEGER;
  return text === '' || text.length > LONGEST_VALUE || !isWhole ? [] : [[printableLine(path), printableLine(text)]];
}

function contains(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase());
}

/** A text in which what was searched for is marked. */
function Marked({ text, mark }: { readonly text: string; readonly mark: string | undefined }) {
  const at = mark ? text.toLowerCase().indexOf(mark.toLowerCase()) : -1;
  if (at === -1 || mark === undefined) return <>{text}</>;
  const end = at + mark.length;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, end)}</mark>
      {text.slice(end)}
    </>
  );
}
