import { escapeHtml } from '../../system/base/text.ts';

/** How a heading looks: something is wrong, may be, or is well. */
export type MailTone = 'bad' | 'warning' | 'good';

/** Without the media queries, which some mail programs leave out, it is a plain page whose colours they may invert. */
const STYLE = `:root{color-scheme:light dark;supported-color-schemes:light dark}
body{margin:0 auto;padding:12px;max-width:52em;font:16px/1.45 system-ui,sans-serif;color:#1f2328;background:#fff}
h1{font-size:22px;line-height:1.25;margin:0 0 8px}
h2{font-size:18px;margin:24px 0 4px}
p{margin:4px 0}
table{border-collapse:collapse}
th,td{padding:4px 16px 4px 0;text-align:left;vertical-align:top;overflow-wrap:anywhere}
th{white-space:nowrap}
thead th,.facts th{font-weight:normal}
.quiet,thead th,.facts th{color:#59636e}
.facts td{white-space:pre-wrap}
code,pre{font:14px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
pre{padding:8px;white-space:pre-wrap;background:#f0f2f4}
.bad{color:#b3261e}
.warning{color:#8a5300}
a{color:inherit}
.good{color:#1a7f37}
@media (max-width:600px){
.rows tr,.rows th,.rows .look{display:block;white-space:normal;padding:0}
.rows td{display:inline-block;padding:0 12px 0 0}
.rows thead{display:none}
.rows tr{padding:8px 0;border-top:1px solid #d1d9e0}
}
@media (prefers-color-scheme:dark){
body{color:#e6edf3;background:#15191e}
.quiet,thead th,.facts th{color:#9aa4af}
pre{background:#22272e}
.bad{color:#ff9a91}
.warning{color:#e3b341}
.good{color:#6fdc8c}
.rows tr{border-color:#3d444d}
}`;

/** A page for mail programs: as wide as a phone, and dark where its reader is. */
export function mailPage(title: string, body: string): string {
  return (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
    '<meta name="viewport" content="width=device-width, initial-scale=1">' +
    '<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">' +
    `<title>${escapeHtml(title)}</title><style>${STYLE}</style></head><body><main>${body}</main></body></html>\n`
  );
}

export function mailHeading(level: 1 | 2, text: string, tone?: MailTone): string {
  return `<h${level}${tone === undefined ? '' : ` class="${tone}"`}>${escapeHtml(text)}</h${level}>`;
}

/** @param text what is shown. Default: the address */
export function mailLink(address: string, text = address): string {
  return `<a href="${escapeHtml(address)}">${escapeHtml(text)}</a>`;
}

/** A command to copy. */
export function mailCommand(command: string): string {
  return `<code>${escapeHtml(command)}</code>`;
}
