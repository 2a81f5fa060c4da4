import * as kleur from 'kleur/colors';
import { isFailure } from '../../store/outcomes.ts';
import type { Outcome } from '../../store/schema.ts';

type Paint = (text: string) => string;

/** The few colours of all output; each is the identity where there are none. */
export interface Palette {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly good: Paint;
  readonly bad: Paint;
  readonly warning: Paint;
  readonly live: Paint;
}

export function createPalette(isColoured: boolean): Palette {
  const use = (paint: typeof kleur.bold): Paint => (isColoured ? always(paint) : (text) => text);
  return {
    bold: use(kleur.bold),
    dim: use(kleur.dim),
    good: use(kleur.green),
    bad: use(kleur.red),
    warning: use(kleur.yellow),
    live: use(kleur.cyan),
  };
}

export function paintOutcome(palette: Palette, outcome: Outcome): Paint {
  if (outcome === 'succeeded') return palette.good;
  if (outcome === 'running') return palette.live;
  return isFailure(outcome) ? palette.bad : palette.warning;
}

/** kleur judges by `process.stdout` as it is when it loads; the caller has judged better. */
function always(paint: typeof kleur.bold): Paint {
  return (text) => {
    const before = kleur.$.enabled;
    kleur.$.enabled = true;
    const painted = paint(text);
    kleur.$.enabled = before;
    return painted;
  };
}
