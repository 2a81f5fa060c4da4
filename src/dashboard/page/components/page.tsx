import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { moves } from '../router.ts';

interface PageProps {
  /** Its heading, and the title of the window. */
  readonly title: string;
  /** Beside the heading: a badge, buttons. */
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
}

let seen = 0;

/** One page: who comes from another one finds the focus at its heading, at the top. */
export function Page({ title, aside, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · runner`;
  }, [title]);
  useEffect(() => {
    // Who just opened the page is at the top already.
    if (moves.peek() === seen) return;
    seen = moves.peek();
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
