/** A value in a text of JSON, by its first character and the one after its last. */
interface Span {
  readonly start: number;
  readonly end: number;
}

interface Member extends Span {
  readonly key: string;
  readonly value: Node;
}

/** Only objects have members, and only lists have items. */
interface Node extends Span {
  readonly members?: readonly Member[];
  readonly items?: readonly Node[];
}

/** Finds where each value of a valid text stands. */
function scan(source: string): Node {
  let at = 0;
  const skip = (form: RegExp): void => {
    form.lastIndex = at;
    at += form.exec(source)?.[0].length ?? 0;
  };
  const space = (): void => skip(/[\s,:]*/y);
  const scalar = (): void => skip(/"(?:\\[\s\S]|[^"\\])*"|[^\s,:[\]{}]+/y);
  const value = (): Node => {
    space();
    const start = at;
    const opening = source[at];
    if (opening !== '{' && opening !== '[') {
      scalar();
      return { start, end: at };
    }
    at += 1;
    const members: Member[] = [];
    const items: Node[] = [];
    for (space(); source[at] !== '}' && source[at] !== ']'; space()) {
      if (opening === '[') items.push(value());
      else members.push(member());
    }
    at += 1;
    return opening === '[' ? { start, end: at, items } : { start, end: at, members };
  };
  const member = (): Member => {
    const start = at;
    scalar();
    const key = JSON.parse(source.slice(start, at)) as string;
    const found = value();
    return { start, end: at, key, value: found };
  };
  return value();
}

const find = (node: Node, key: string): Member | undefined => node.members?.find((each) => each.key === key);

/** Puts a part at the end of an object or a list, in the form of the parts that are there. */
function append(source: string, { start, end, members, items }: Node, part: (space: string) => string): string {
  const parts: readonly Span[] = members ?? items ?? [];
  const [first, last] = [parts[0], parts.at(-1)];
  // Without a space before it, `removeFrom` leaves the empty brackets as they were.
  if (first === undefined || last === undefined)
    return `${source.slice(0, start + 1)}${part('')}${source.slice(start + 1)}`;
  const space = source.slice(start + 1, Math.min(first.start, end));
  return `${source.slice(0, last.end)},${space}${part(space)}${source.slice(last.end)}`;
}

/**
 * Adds a channel to the text of a settings file, and changes nothing else of it.
 *
 * @param source valid JSON, whose `alerts` and `channels` are of the right kind; null: there is no file
 * @param channel as JSON, in one line
 */
export function addChannelTo(source: string | null, channel: string): string {
  if (source === null) return `{\n  ${alertsWith(channel, '\n  ', '  ')}\n}\n`;
  const root = scan(source);
  const unit = /\n([ \t]+)/.exec(source)?.[1] ?? '  ';
  const alerts = find(root, 'alerts');
  if (alerts === undefined) return append(source, root, (space) => alertsWith(channel, space, unit));
  const channels = find(alerts.value, 'channels');
  if (channels === undefined) return append(source, alerts.value, (space) => channelsWith(channel, space, unit));
  return append(source, channels.value, () => channel);
}

const alertsWith = (channel: string, space: string, unit: string): string =>
  `"alerts": {${within(space, unit, (inner) => channelsWith(channel, inner, unit))}}`;

const channelsWith = (channel: string, space: string, unit: string): string =>
  `"channels": [${within(space, unit, () => channel)}]`;

/** The text between new brackets, with a space or a line break inside them, as in earlier brackets. */
function within(space: string, unit: string, part: (space: string) => string): string {
  if (!space.includes('\n')) return ` ${part('')} `;
  return `${space}${unit}${part(space + unit)}${space}`;
}

/**
 * Removes a channel from the text of a settings file, with what only it needed.
 *
 * @param place its place in `alerts.channels`
 * @returns null: nothing is left
 */
export function removeChannelFrom(source: string, place: number): string | null {
  const root = scan(source);
  const alerts = find(root, 'alerts');
  const channels = alerts && find(alerts.value, 'channels');
  const item = channels?.value.items?.[place];
  if (alerts === undefined || channels === undefined || item === undefined) return source;
  const levels = [
    { around: channels.value, part: item },
    { around: alerts.value, part: channels },
    { around: root, part: alerts },
  ];
  // The outermost part that holds nothing else goes.
  const level = levels.find(({ around, part }) => isKept(around, part));
  return level === undefined ? null : cut(source, level.around, level.part);
}

/** Whether brackets stay once their part is gone: they hold other parts, or stood there before it. */
function isKept({ start, members, items }: Node, part: Span): boolean {
  return (members ?? items ?? []).length > 1 || part.start === start + 1;
}

function cut(source: string, { members, items }: Node, part: Span): string {
  const parts: readonly Span[] = members ?? items ?? [];
  const place = parts.findIndex(({ start }) => start === part.start);
  const before = parts[place - 1];
  const from = before === undefined ? part.start : before.end;
  const until = before === undefined ? (parts[place + 1]?.start ?? part.end) : part.end;
  return source.slice(0, from) + source.slice(until);
}
