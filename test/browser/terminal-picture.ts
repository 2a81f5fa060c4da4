import Anser from 'anser';
import stringWidth from 'string-width';

/** Colours of a terminal with a light and with a dark ground, as the page around the picture asks for. */
const STYLE = `
    text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #1f2328 }
    .ground { fill: #f6f8fa }
    .b { font-weight: 600 } .d { fill: #656d76 } .g { fill: #1a7f37 } .r { fill: #cf222e } .y { fill: #9a6700 }
    .c { fill: #0969da }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .ground { fill: #161b22 }
      .d { fill: #8d96a0 } .g { fill: #3fb950 } .r { fill: #f85149 } .y { fill: #d29922 } .c { fill: #4493f8 }
    }`;

const CELL = 8.43;
const LINE = 20;
const MARGIN = 16;

const classes: Readonly<Record<string, string>> = {
  ...{ bold: 'b', dim: 'd', 'ansi-red': 'r', 'ansi-green': 'g', 'ansi-yellow': 'y', 'ansi-cyan': 'c' },
};

/** What a terminal shows of coloured output, as an SVG that any page can hold. */
export function drawTerminal(output: string, label: string): string {
  const lines = output.trimEnd().split('\n').map(readPieces);
  const widest = Math.max(...lines.map((pieces) => stringWidth(pieces.map(({ text }) => text).join(''))));
  const [width, height] = [Math.ceil(widest * CELL + 2 * MARGIN), lines.length * LINE + 2 * MARGIN];
  const rows = lines.map((pieces, index) => {
    const spans = pieces.map(({ text, className }) =>
      className === '' ? escapeXml(text) : `<tspan class="${className}">${escapeXml(text)}</tspan>`,
    );
    return `  <text x="${MARGIN}" y="${MARGIN + LINE * index + 14}" xml:space="preserve">${spans.join('')}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" role="img"`,
    `  aria-label="${escapeXml(label)}">`,
    `  <style>${STYLE}\n  </style>`,
    `  <rect class="ground" width="${width}" height="${height}" rx="8"/>`,
    ...rows,
    '</svg>\n',
  ].join('\n');
}

/** The text of such a picture, a line for each of the terminal's. */
export function readPicture(svg: string): string[] {
  return [...svg.matchAll(/<text [^>]*>(.*)<\/text>/g)].map(([, line = '']) =>
    line.replace(/<[^>]+>/g, '').replace(/&(amp|lt|gt|quot);/g, (_, name: string) => entities[name] ?? ''),
  );
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"' };

interface Piece {
  readonly text: string;
  readonly className: string;
}

function readPieces(line: string): Piece[] {
  return Anser.ansiToJson(line, { use_classes: true, remove_empty: true }).map(({ content, fg, decorations }) => {
    const names = [fg, ...decorations].flatMap((name) => classes[name ?? ''] ?? []);
    return { text: content, className: names.join(' ') };
  });
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&${Object.entries(entities).find(([, each]) => each === sign)?.[0]};`);
}
