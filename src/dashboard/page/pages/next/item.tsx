import { formatCount } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { Name } from '../../components/text.tsx';
import { hrefOf } from '../../router.ts';

export type NextAnswer = components['schemas']['Next'];
export type Item = NextAnswer['items'][number];

type Subject = Pick<Item, 'kind' | 'name'> & Partial<Pick<Item, 'job'>>;

/** The page of what an item is about. */
export function hrefOfItem({ kind, name, job = null }: Subject): string {
  if (kind === 'tier') return hrefOf('/scripts', null, { tier: name });
  if (kind === 'script') return hrefOf('/scripts', name);
  return job === null ? hrefOf('/queue', null, { name }) : hrefOf('/jobs', job);
}

/** `1,200 × mail/welcome` */
export function ItemName({ name, count }: Pick<Item, 'name' | 'count'>) {
  return (
    <>
      {count > 1 && `${formatCount(count)} × `}
      <Name text={name} />
    </>
  );
}
