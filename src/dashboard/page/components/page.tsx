import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Asked } from '../data.ts';
import { pageTitle } from '../frame/tab.ts';
import { returnToPlace } from '../left-places.ts';
import { moves } from '../router.ts';
import { Icon, type Tone } from './state.tsx';
import { Sentences, Words } from './text.tsx';

interface PageProps {
  /** Its heading. */
  readonly title: string;
  /** The title of the browser's tab. Default: the heading. */
  readonly tab?: string | undefined;
  /** Beside the heading: a badge, buttons. */
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
}

let seen = 0;

/** One page: who comes from another one finds the focus at its heading, at the top; who comes back, where they were. */
export function Page({ title, tab = title, aside, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    pageTitle.value = tab;
  }, [tab]);
  useEffect(() => {
    // A page that was just opened is at the top already.
    if (moves.peek() === seen) return;
    seen = moves.peek();
    if (returnToPlace()) return;
    scrollTo(0, 0);
    heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <>
      <header class="page-head">
        <h1 ref={heading} tabIndex={-1}>
          <bdi>{title}</bdi>
        </h1>
        {aside}
      </header>
      {children}
    </>
  );
}

interface SectionProps {
  readonly title: string;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A part of a page under a heading of its own. */
export function Section({ title, aside, children }: SectionProps) {
  const id = useId();
  return (
    <section class="section" aria-labelledby={id}>
      <header class="section-head">
        <h2 id={id}>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

interface FigureProps {
  readonly label: string;
  readonly children: ComponentChildren;
}

/** Figures side by side, each under what it is: `<Figures><Figure label="p50">41s</Figure></Figures>`. */
export function FigureList({ children }: { readonly children: ComponentChildren }) {
  return <dl class="figures">{children}</dl>;
}

export function FigureItem({ label, children }: FigureProps) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

interface UnfoldedProps {
  readonly summary: string;
  readonly children: () => ComponentChildren;
}

/** Content that is drawn only once somebody unfolds it. */
export function Unfolded({ summary, children }: UnfoldedProps) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && children()}
    </details>
  );
}

interface FactsProps {
  /** Each under its label; null: there is none. */
  readonly facts: readonly (readonly [label: string, value: ComponentChildren])[];
}

export function Facts({ facts }: FactsProps) {
  return (
    <dl class="facts">
      {facts.map(
        ([label, value]) =>
          value !== null && (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

interface NoticeProps {
  readonly title: string;
  readonly children?: ComponentChildren;
}

/** Nothing is there, why, and what to do about it. */
export function Empty({ title, children }: NoticeProps) {
  return (
    <div class="notice">
      <p class="notice-title">
        <Words text={title} />
      </p>
      {children}
    </div>
  );
}

/** Something is wrong, or worth to be known before all else. */
export function Notice({ tone, title, children }: NoticeProps & { readonly tone: Tone }) {
  return (
    <div class={`notice ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      <p class="notice-title">
        <Icon name={tone === 'bad' ? 'incidents' : tone} />
        <span>
          <Sentences text={title} />
        </span>
      </p>
      {children}
    </div>
  );
}

/** Shown where an answer is still to come. */
export function Loading() {
  return (
    <p class="loading" role="status">
      Loading …
    </p>
  );
}

interface AnsweredProps<Body> {
  readonly asked: Asked<Body>;
  readonly children: (data: Body) => ComponentChildren;
}

/** An answer, what stands for it until it comes, and why there is no newer one. */
export function Answered<Body>({ asked: { data, problem }, children }: AnsweredProps<Body>) {
  return (
    <>
      {problem !== null && (
        <Notice tone="bad" title={data === null ? 'This could not be read' : 'What you see may be out of date'}>
          <p>
            <Words text={problem} />
          </p>
        </Notice>
      )}
      {data === null ? problem === null && <Loading /> : children(data)}
    </>
  );
}
