// A similar past alert: what it shares, what was done then, whether it came back.

import { Alert as Message, Button, Card, CardBody, ExpandableSection, Label } from "./library";
import { useContext, useState } from "react";
import { Link } from "react-router";
import { type Hit, type Judgement, describeProblem } from "../api";
import { describeHit, describeLength, describeReturn, findRemedy } from "../answers";
import { SessionContext } from "../session";
import { Score, Time } from "./common";
import { FixRecord, type Fixes, RemedyLabels } from "./fixes";
import { LongText } from "./text";

const RARE_SHARE = 0.15; // of the score, from which a shared term is highlighted
const MAX_RESULT = 300; // characters of what a checked step showed
const MAX_TERMS = 8; // shown without expanding

interface Props {
  eid: string;
  hit: Hit;
  /** Of all people, one each. */
  judgements: Judgement[];
  fixes: Fixes;
  /** Stores an opinion, or withdraws it (null); fails with an `ApiError`. */
  judge: ((past: string, helps: boolean | null) => Promise<void>) | null;
}

export function SimilarAlert({ eid, hit, judgements, fixes, judge }: Props) {
  const { past } = hit;
  const [problem, setProblem] = useState("");
  const remedy = findRemedy(hit);
  const facts = [describeLength(hit), describeReturn(hit)].filter(Boolean);
  const user = useContext(SessionContext)?.name;
  const judgement = judgements.find((entry) => entry.author === user);
  /** Pressed again, a button withdraws the opinion. */
  async function store(helps: boolean): Promise<void> {
    setProblem("");
    const opinion = judgement?.helps === helps ? null : helps;
    await judge?.(hit.eid, opinion).catch((error) => setProblem(describeProblem(helps ? "Agree" : "Disagree", error)));
  }

  const title = describeHit(hit);
  return (
    <Card component="article" isCompact className="similar" aria-label={`Similar past alert ${hit.rank}`}>
      <CardBody>
        <div className="similar-head">
          <Score score={hit.score} title="Similarity of the contexts, from 0 to 1" />
          <div>
            <h3>{past?.alert ? <Link to={`/alerts/${past.alert}`}>{title}</Link> : title}</h3>
            <p className="note">
              <Time value={hit.ts} />
              {facts.length > 0 && `, ${facts.join(", ")}`}
            </p>
          </div>
        </div>
        {remedy ? (
          <p className="remedy">
            <strong>{remedy.text}</strong> <RemedyLabels remedy={remedy} />{" "}
            <span className="note">
              noted by {remedy.author} <Time value={remedy.at} brief />
            </span>{" "}
            <FixRecord fix={fixes.get(remedy.tag ?? "")} />
          </p>
        ) : (
          <p className="note remedy">{past ? "Nobody noted what was done." : "The event has been deleted."}</p>
        )}
        <CheckedSteps hit={hit} />
        {hit.reasons && hit.reasons.length > 0 && <p className="reasons">{hit.reasons.join(" ")}</p>}
        <SharedTerms hit={hit} />
        <div className="similar-actions">
          <Link to={`/compare/${eid}/${hit.eid}`} className="compare-link">
            Compare
          </Link>
          {judge && (
            <>
              <Button
                size="sm"
                variant={judgement?.helps === true ? "primary" : "secondary"}
                aria-pressed={judgement?.helps === true}
                onClick={() => void store(true)}
              >
                Agree
              </Button>
              <Button
                size="sm"
                variant={judgement?.helps === false ? "danger" : "secondary"}
                aria-pressed={judgement?.helps === false}
                onClick={() => void store(false)}
              >
                Disagree
              </Button>
            </>
          )}
          <span className="note" role="status">
            {describeJudgements(judgements)}
          </span>
        </div>
        <div role="alert">{problem && <Message isInline isPlain variant="danger" title={problem} />}</div>
      </CardBody>
    </Card>
  );
}

function describeJudgements(judgements: Judgement[]): string {
  const opinions = judgements.map(({ author, helps }) => `${author} ${helps ? "agrees" : "disagrees"}`).join(", ");
  const isDisputed = new Set(judgements.map(({ helps }) => helps)).size > 1;
  return isDisputed ? `${opinions}. Opinions differ: nothing is learned from them.` : opinions;
}

/** What was checked then to find the cause. */
function CheckedSteps({ hit }: { hit: Hit }) {
  const steps = (hit.past?.notes ?? []).filter(({ kind }) => kind === "checked");
  if (!steps.length) {
    return null;
  }
  return (
    <ExpandableSection toggleText={`Checked then (${steps.length})`} isIndented>
      <ul>
        {steps.map((step, index) => (
          <li key={index}>
            <code>{step.text}</code> {step.outcome && step.outcome !== "open" && <Label isCompact>{step.outcome}</Label>}
            {step.result && <p className="note">{<LongText text={step.result} length={MAX_RESULT} />}</p>}
          </li>
        ))}
      </ul>
    </ExpandableSection>
  );
}

/** The terms that both contexts have, the most distinguishing first, with their share of the score. */
function SharedTerms({ hit }: { hit: Hit }) {
  const strongest = hit.shared.slice(0, MAX_TERMS);
  return (
    <>
      {strongest.length > 0 && <p className="note">Both had, with the share of the similarity:</p>}
      <ul className="terms" aria-label="Shared terms with their share of the similarity">
        {strongest.map(([term, share]) => (
          <li key={term} className={share >= RARE_SHARE ? "term rare" : "term"}>
            {term} <span className="share">{Math.round(share * 100)} %</span>
          </li>
        ))}
      </ul>
      <ExpandableSection toggleText="All terms" isIndented>
        <RankParts hit={hit} />
        <TermList title="Shared" terms={hit.shared.map(([term, share]) => `${term} (${(share * 100).toFixed(1)} %)`)} />
        <TermList title="Only now" terms={hit.only_new} />
        <TermList title="Only then" terms={hit.only_past} />
      </ExpandableSection>
    </>
  );
}

/** What the rank consists of, by the measure `learned`. */
function RankParts({ hit }: { hit: Hit }) {
  const { parts } = hit;
  if (!parts) {
    return null;
  }
  const names: Record<string, string> = { terms: "shared terms", resolution: "resolution", place_and_age: "place and age" };
  const texts = Object.entries(parts).map(([part, value]) => `${names[part] ?? part} ${value > 0 ? "+" : ""}${value.toFixed(1)}`);
  return (
    <>
      <p>
        <strong>Rank from:</strong> {texts.join(", ")}
      </p>
      {(hit.tag_terms?.length ?? 0) > 0 && (
        <TermList title="Speak for its resolution" terms={(hit.tag_terms ?? []).map(([term]) => String(term))} />
      )}
    </>
  );
}

function TermList({ title, terms }: { title: string; terms: string[] }) {
  return (
    <p>
      <strong>{title}:</strong> {terms.length ? terms.join(", ") : "none"}
    </p>
  );
}
