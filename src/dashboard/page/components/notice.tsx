import type { ComponentChildren } from 'preact';
import type { Asked } from '../data.ts';
import { Icon } from './icon.tsx';
import type { Tone } from './state.tsx';

interface NoticeProps {
  readonly title: string;
  readonly children?: ComponentChildren;
}

/** Nothing is there, why, and what to do about it. */
export function Empty({ title, children }: NoticeProps) {
  return (
    <div class="notice">
      <p class="notice-title">{title}</p>
      {children}
    </div>
  );
}

/** Something is wrong, or worth to be known before all else. */
export function Notice({ tone, title, children }: NoticeProps & { readonly tone: Tone }) {
  return (
    <div class={`notice ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      <p class="notice-title">
        <Icon name={tone === 'bad' ? 'incidents' : tone === 'warning' ? 'warning' : 'unknown'} />
        {title}
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
          <p>{problem}</p>
        </Notice>
      )}
      {data === null ? problem === null && <Loading /> : children(data)}
    </>
  );
}
