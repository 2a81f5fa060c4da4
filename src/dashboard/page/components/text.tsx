import { type ComponentChildren, Fragment } from 'preact';
import { describeRises, UNKNOWN } from '../../../system/base/format.ts';
import { printableLine } from '../../../system/base/text.ts';
import { hrefOf } from '../router.ts';
import { hasPage } from '../source/embedded.ts';
import { Time } from './time.tsx';

/** A name or message of others: what is invisible or reverses text is made visible, and turns nothing around it. */
export function Name({ text }: { readonly text: string }) {
  return <bdi>{printableLine(text)}</bdi>;
}

/** A sentence of the runner, with its commands in backticks as code, and its instants by the viewer's clock. */
export function Words({ text }: { readonly text: string }) {
  const parts = printableLine(text).split('`');
  // A backtick without another is a letter.
  if (parts.length % 2 === 0) return <bdi>{withTimes(printableLine(text))}</bdi>;
  return <bdi>{parts.map((part, index) => (index % 2 === 1 ? <code key={part}>{part}</code> : withTimes(part)))}</bdi>;
}

/** Sentences of the runner, each on a line of its own. */
export function Sentences({ text }: { readonly text: string }) {
  return text.split('\n').map((line, index) => (
    <Fragment key={index}>
      {index > 0 && <br />}
      <Words text={line} />
    </Fragment>
  ));
}

/** The log has them in UTC. */
function withTimes(sentence: string) {
  const parts = sentence.split(/\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)/);
  return parts.map((part, index) => (index % 2 === 1 ? <Time key={part} at={part} as="short" /> : part));
}

/** A line for each figure of a script that has risen. */
export function RiseLines(rises: Parameters<typeof describeRises<string | null>>[0]) {
  return describeRises(rises, (at) => at ?? UNKNOWN).map((text) => (
    <p key={text}>
      <Words text={text} />
    </p>
  ));
}

/** The way to the page of a script. */
export function ScriptLink({ name }: { readonly name: string }) {
  return (
    <a href={hrefOf('/scripts', name)}>
      <Name text={name} />
    </a>
  );
}

/** The way to the page of a run. Default words: `Run 17`. */
export function RunLink({
  id,
  children = `Run ${id}`,
}: {
  readonly id: number;
  readonly children?: ComponentChildren;
}) {
  return hasPage('runs', id) ? <a href={hrefOf('/runs', id)}>{children}</a> : <NotHere>{children}</NotHere>;
}

/** The way to the page of a job. Default words: `Job 17`. */
export function JobLink({
  id,
  children = `Job ${id}`,
}: {
  readonly id: number;
  readonly children?: ComponentChildren;
}) {
  return hasPage('jobs', id) ? <a href={hrefOf('/jobs', id)}>{children}</a> : <NotHere>{children}</NotHere>;
}

/** Instead of a link to what a report does not hold. */
function NotHere({ children }: { readonly children: ComponentChildren }) {
  return <span title="This report does not hold it">{children}</span>;
}
