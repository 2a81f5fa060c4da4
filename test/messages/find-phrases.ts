import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

/** Words of a message as the source has them: what is constant, with a hole for each value between. */
export interface Phrase {
  /** Begins and ends with a constant part, which may be empty. */
  readonly constants: readonly string[];
  /** Relative to `src/`. */
  readonly file: string;
  readonly line: number;
}

/** The browser's part shows texts of its own, the client is generated, and statements are SQL. */
const LEFT_OUT = /^dashboard\/(?:page|client)\/|\/statements\//;

/** What is written to these properties and lists is read by people. */
const PROPERTIES = new Set([
  ...['message', 'problem', 'problems', 'reason', 'reasons', 'fault', 'statement', 'refusals', 'failure', 'wrong'],
  ...['warning', 'warnings', 'note', 'notes', 'hint', 'cure', 'cures', 'found', 'finding', 'conclusion', 'detail'],
]);

/** Three words or more, a value among them; fewer are a value, such as the name of an option. */
function isProse(constants: readonly string[]): boolean {
  const words = constants
    .join(' … ')
    .split(/\s+/)
    .filter((word) => /[a-z]{2}|…/i.test(word));
  return words.length >= 3 && words.filter((word) => word !== '…').length >= 2;
}

type Declared = ts.Expression | ts.FunctionLikeDeclaration | ts.ParameterDeclaration | ts.BindingElement;

/**
 * Follows the data backwards: from the errors that people see, what is written to stderr and the properties above, to the
 * literals that they are made of, over variables, functions and parameters. By syntax alone, which takes a second; with
 * types it would take ten.
 */
export function findPhrases(root: string): Phrase[] {
  const source = join(root, 'src');
  const files = new Map<string, ts.SourceFile>();
  for (const path of globSync('**/*.{ts,cts}', { cwd: source })) {
    if (LEFT_OUT.test(path)) continue;
    const text = readFileSync(join(source, path), 'utf8');
    files.set(path, ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true));
  }
  return new Finder(files).find();
}

class Finder {
  readonly #files: ReadonlyMap<string, ts.SourceFile>;
  readonly #phrases: Phrase[] = [];
  readonly #seen = new Set<ts.Node>();
  readonly #errors = new Set(['Error', 'TypeError', 'SyntaxError', 'RangeError']);
  /** By the declaration of what is called. */
  readonly #calls = new Map<ts.Node, ts.CallExpression[]>();

  constructor(files: ReadonlyMap<string, ts.SourceFile>) {
    this.#files = files;
  }

  find(): Phrase[] {
    // A class of errors may stand in a later file than another one that it extends.
    for (let before = 0; before !== this.#errors.size; ) {
      before = this.#errors.size;
      for (const file of this.#files.values()) this.#eachNode(file, (node) => this.#noteErrorClass(node));
    }
    for (const file of this.#files.values()) this.#eachNode(file, (node) => this.#noteCall(node));
    for (const file of this.#files.values()) this.#eachNode(file, (node) => this.#begin(node));
    return this.#phrases;
  }

  #eachNode(node: ts.Node, visit: (node: ts.Node) => void): void {
    visit(node);
    ts.forEachChild(node, (child) => this.#eachNode(child, visit));
  }

  #noteErrorClass(node: ts.Node): void {
    if (!ts.isClassDeclaration(node) || node.name === undefined) return;
    const base = node.heritageClauses?.[0]?.types[0]?.expression;
    if (base !== undefined && ts.isIdentifier(base) && this.#errors.has(base.text)) this.#errors.add(node.name.text);
  }

  #noteCall(node: ts.Node): void {
    if (!ts.isCallExpression(node) || !ts.isIdentifier(node.expression)) return;
    const called = this.#declarationOf(node.expression);
    if (called === undefined) return;
    const calls = this.#calls.get(called) ?? [];
    this.#calls.set(called, [...calls, node]);
  }

  /** Where a message goes to people. */
  #begin(node: ts.Node): void {
    if (ts.isNewExpression(node) && ts.isIdentifier(node.expression) && this.#errors.has(node.expression.text))
      for (const argument of node.arguments ?? []) this.#follow(argument);
    if (ts.isCallExpression(node)) this.#beginWithCall(node);
    if (ts.isPropertyAssignment(node) && PROPERTIES.has(nameOf(node.name))) this.#follow(node.initializer);
    if (ts.isShorthandPropertyAssignment(node) && PROPERTIES.has(node.name.text)) this.#follow(node.name);
    if (ts.isMethodDeclaration(node) && PROPERTIES.has(nameOf(node.name))) this.#followResult(node);
  }

  #beginWithCall(call: ts.CallExpression): void {
    const { expression } = call;
    const isSuper = expression.kind === ts.SyntaxKind.SuperKeyword && isInClass(call, this.#errors);
    const target = expression.getText();
    const [, list, method] = /(\w+)\??\.(\w+)$/.exec(target) ?? [];
    const isWritten = method === 'write' && list === 'stderr';
    const isListed = method === 'push' && PROPERTIES.has(list ?? '');
    if (isSuper || isWritten || isListed || target === 'writeSync')
      for (const each of call.arguments) this.#follow(each);
  }

  #follow(node: ts.Node): void {
    if (this.#seen.has(node)) return;
    this.#seen.add(node);
    if (isText(node)) this.#take(node);
    else if (ts.isIdentifier(node)) this.#followName(node);
    else if (ts.isCallExpression(node)) this.#followCall(node);
    else if (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) this.#followResult(node);
    else if (ts.isConditionalExpression(node)) for (const each of [node.whenTrue, node.whenFalse]) this.#follow(each);
    else if (ts.isBinaryExpression(node)) for (const each of [node.left, node.right]) this.#follow(each);
    else if (ts.isObjectLiteralExpression(node)) for (const each of node.properties) this.#followProperty(each);
    else if (ts.isPropertyAccessExpression(node)) this.#followAccess(node);
    else if (ts.isElementAccessExpression(node)) this.#follow(node.expression);
    else if (ts.isNewExpression(node)) for (const each of node.arguments ?? []) this.#follow(each);
    else if (ts.isArrayLiteralExpression(node)) for (const each of node.elements) this.#follow(each);
    else if (isWrapped(node)) this.#follow(node.expression);
  }

  #followProperty(property: ts.ObjectLiteralElementLike): void {
    if (ts.isPropertyAssignment(property)) this.#follow(property.initializer);
    else if (ts.isShorthandPropertyAssignment(property)) this.#follow(property.name);
    else if (ts.isMethodDeclaration(property)) this.#followResult(property);
    else if (ts.isSpreadAssignment(property)) this.#follow(property.expression);
  }

  /** Of a table in the same file, all that it holds; the properties of other values are followed where they are set. */
  #followAccess({ expression }: ts.PropertyAccessExpression): void {
    if (!ts.isIdentifier(expression)) return;
    const declared = this.#declarationOf(expression);
    if (declared !== undefined && ts.isObjectLiteralExpression(unwrapped(declared))) this.#follow(unwrapped(declared));
  }

  #followCall(call: ts.CallExpression): void {
    const { expression } = call;
    if (ts.isIdentifier(expression)) this.#followName(expression);
    // text.trim(), list.join(), list.map((each) => …), table.get(key), this.#describe()
    if (!ts.isPropertyAccessExpression(expression)) return;
    if (expression.expression.kind === ts.SyntaxKind.ThisKeyword) this.#followMethod(expression);
    else this.#follow(expression.expression);
    for (const each of call.arguments) if (ts.isArrowFunction(each)) this.#follow(each);
    const isMap = ['map', 'flatMap'].includes(expression.name.text);
    for (const each of call.arguments) if (isMap && ts.isIdentifier(each)) this.#followName(each);
  }

  #followMethod({ name }: ts.PropertyAccessExpression): void {
    const parent = ts.findAncestor(name, ts.isClassDeclaration);
    for (const member of parent?.members ?? []) {
      if (ts.isMethodDeclaration(member) && nameOf(member.name) === name.text) this.#followResult(member);
    }
  }

  #followName(name: ts.Identifier): void {
    const declared = this.#declarationOf(name);
    if (declared === undefined || this.#seen.has(declared)) return;
    if (ts.isParameter(declared)) this.#followArguments(declared, declared);
    else if (ts.isBindingElement(declared)) this.#followBinding(declared);
    else if (ts.isFunctionLike(declared)) this.#followResult(declared as ts.FunctionLikeDeclaration);
    else this.#follow(declared);
  }

  #followBinding(element: ts.BindingElement): void {
    const owner = element.parent.parent;
    if (ts.isParameter(owner)) this.#followArguments(owner, element);
    else if (
      ts.isVariableDeclaration(owner) &&
      ts.isArrayBindingPattern(element.parent) &&
      owner.initializer !== undefined
    )
      this.#follow(owner.initializer);
  }

  /** What the callers of the function give for this parameter, or for this property of it. */
  #followArguments(parameter: ts.ParameterDeclaration, wanted: ts.ParameterDeclaration | ts.BindingElement): void {
    this.#seen.add(wanted);
    const { parent } = parameter;
    const place = parent.parameters.indexOf(parameter);
    const name = wanted === parameter ? null : nameOf((wanted as ts.BindingElement).propertyName ?? wanted.name);
    for (const call of this.#calls.get(parent) ?? []) {
      const given =
        parameter.dotDotDotToken === undefined ? call.arguments.slice(place, place + 1) : call.arguments.slice(place);
      for (const argument of given) {
        if (name === null) this.#follow(argument);
        else if (ts.isObjectLiteralExpression(argument))
          for (const each of argument.properties) if (nameOf(each.name) === name) this.#followProperty(each);
      }
    }
  }

  #followResult(node: ts.FunctionLikeDeclaration): void {
    if (this.#seen.has(node) && !ts.isArrowFunction(node)) return;
    this.#seen.add(node);
    const { body } = node;
    if (body === undefined) return;
    if (!ts.isBlock(body)) this.#follow(body);
    else this.#eachOwn(body, (each) => this.#follow(each));
  }

  /** What a function returns or yields, without the functions in it. */
  #eachOwn(node: ts.Node, visit: (result: ts.Expression) => void): void {
    ts.forEachChild(node, (child) => {
      if (ts.isFunctionLike(child)) return;
      if ((ts.isReturnStatement(child) || ts.isYieldExpression(child)) && child.expression !== undefined)
        visit(child.expression);
      this.#eachOwn(child, visit);
    });
  }

  #take(node: ts.Expression): void {
    const constants = [''];
    const add = (part: ts.Expression): void => {
      if (ts.isStringLiteralLike(part)) constants.push((constants.pop() ?? '') + part.text);
      else if (ts.isTemplateExpression(part)) {
        constants.push((constants.pop() ?? '') + part.head.text);
        for (const { expression, literal } of part.templateSpans) {
          this.#follow(expression);
          constants.push(literal.text);
        }
      } else if (isText(part))
        for (const each of [(part as ts.BinaryExpression).left, (part as ts.BinaryExpression).right]) add(each);
      else {
        this.#follow(part);
        constants.push('');
      }
    };
    add(node);
    const file = node.getSourceFile();
    const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1;
    // Where a line begins and ends is no part of the message.
    constants[0] = constants[0]?.trimStart() ?? '';
    constants.push((constants.pop() ?? '').trimEnd());
    if (isProse(constants)) this.#phrases.push({ constants, file: file.fileName, line });
  }

  /** The nearest declaration of a name: in the blocks around it, in its file, or where that imports it from. */
  #declarationOf(name: ts.Identifier): Declared | undefined {
    for (let scope: ts.Node = name.parent; scope !== undefined; scope = scope.parent) {
      const found = declaredIn(scope, name.text);
      if (found !== undefined) return found;
    }
    return this.#importOf(name);
  }

  #importOf(name: ts.Identifier): Declared | undefined {
    const file = name.getSourceFile();
    for (const statement of file.statements) {
      if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) continue;
      const { moduleSpecifier } = statement;
      if (
        moduleSpecifier === undefined ||
        !ts.isStringLiteral(moduleSpecifier) ||
        !moduleSpecifier.text.startsWith('.')
      )
        continue;
      const named = ts.isImportDeclaration(statement) ? statement.importClause?.namedBindings : statement.exportClause;
      if (named === undefined || !(ts.isNamedImports(named) || ts.isNamedExports(named))) continue;
      const element = [...named.elements].find((each) => each.name.text === name.text);
      const other = this.#files.get(relative('.', join(dirname(file.fileName), moduleSpecifier.text)));
      if (element !== undefined && other !== undefined)
        return declaredIn(other, (element.propertyName ?? element.name).text);
    }
    return undefined;
  }
}

/** What the statements, the parameters or the loop of this scope declare under the name. */
function declaredIn(scope: ts.Node, name: string): Declared | undefined {
  if (ts.isFunctionLike(scope)) {
    for (const parameter of scope.parameters as readonly ts.ParameterDeclaration[]) {
      const found = boundBy(parameter.name, name);
      if (found !== undefined) return found === true ? parameter : found;
    }
  }
  // Of a list, each could be meant.
  if (ts.isForOfStatement(scope) && ts.isVariableDeclarationList(scope.initializer)) {
    const [each] = scope.initializer.declarations;
    if (each !== undefined && boundBy(each.name, name) !== undefined) return scope.expression;
  }
  const statements = ts.isSourceFile(scope) || ts.isBlock(scope) || ts.isCaseClause(scope) ? scope.statements : [];
  for (const statement of statements) {
    if (ts.isFunctionDeclaration(statement) && statement.name?.text === name && statement.body !== undefined)
      return statement;
    if (!ts.isVariableStatement(statement)) continue;
    for (const variable of statement.declarationList.declarations) {
      const found = boundBy(variable.name, name);
      if (found === true) return variable.initializer;
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** True for the name itself, the element for one in a pattern. */
function boundBy(binding: ts.BindingName, name: string): ts.BindingElement | true | undefined {
  if (ts.isIdentifier(binding)) return binding.text === name ? true : undefined;
  for (const element of binding.elements) {
    if (!ts.isBindingElement(element)) continue;
    const found = boundBy(element.name, name);
    if (found !== undefined) return found === true ? element : found;
  }
  return undefined;
}

function isInClass(node: ts.Node, names: ReadonlySet<string>): boolean {
  const name = ts.findAncestor(node, ts.isClassDeclaration)?.name?.text;
  return name !== undefined && names.has(name);
}

/** A literal, a template, or a sum with one of them. */
function isText(node: ts.Node): node is ts.Expression {
  if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) return true;
  return (
    ts.isBinaryExpression(node) &&
    node.operatorToken.kind === ts.SyntaxKind.PlusToken &&
    (isText(node.left) || isText(node.right))
  );
}

type Wrapped = ts.ParenthesizedExpression | ts.AsExpression | ts.SatisfiesExpression | ts.NonNullExpression;

const isWrapped = (node: ts.Node): node is Wrapped =>
  ts.isParenthesizedExpression(node) ||
  ts.isAsExpression(node) ||
  ts.isSatisfiesExpression(node) ||
  ts.isNonNullExpression(node) ||
  ts.isAwaitExpression(node) ||
  ts.isSpreadElement(node);

const unwrapped = (node: ts.Node): ts.Node => (isWrapped(node) ? unwrapped(node.expression) : node);

const nameOf = (name: ts.Node | undefined): string =>
  name !== undefined && (ts.isIdentifier(name) || ts.isStringLiteral(name) || ts.isPrivateIdentifier(name))
    ? name.text
    : '';
