import type { Dialect } from './dialect.ts';

/** All tiers that were ever called, perhaps with a null: one step into an index for each. */
export function withTiers({ name }: Dialect): string {
  // MySQL steps by itself; PostgreSQL would read all of the index.
  if (name === 'mysql') return 'with tiers (tier) as (select distinct tier from workers)';
  return `with recursive tiers (tier) as (
    select min(tier) from workers
    union all
    select (select min(workers.tier) from workers where workers.tier > tiers.tier) from tiers
    where tiers.tier is not null)`;
}
