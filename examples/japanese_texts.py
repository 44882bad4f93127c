"""Small Japanese texts to try things out on, put together from sentences written for them; all names are invented.

python examples/japanese_texts.py OUT [SEED]

OUT/raw.txt          texts without labels, a document a line, to pretrain on
OUT/tickets-*.tsv    text, label: 配送 支払い アカウント; no text is in both train and dev, but their sentences are
OUT/entities-*.jsonl text, entities as character spans: 人名 地名 組織; no text is in both, but names are
"""

import csv
import json
import random
import sys
from pathlib import Path

TICKETS = {
    "配送": """
        {品}がまだ届きません。 荷物の追跡番号が使えません。 配達の時間を夜に変えてください。
        {品}の箱がつぶれていました。 注文した{品}はいつ発送されますか。 荷物が別の家に届いたようです。
        配送先の住所を変更したいです。 {品}が一つ足りません。 玄関の前に荷物が置かれていました。
        配達員が来た様子がありません。 発送の連絡がまだありません。 {品}を会社に送ってもらえますか。
        届いた{品}が壊れていました。 海外への発送はできますか。 荷物を営業所で受け取りたいです。
        到着が三日も遅れています。 配送の状況を教えてください。 日曜日に届けてもらえますか。
        荷物が雨でぬれていました。 違う色の{品}が届きました。
    """,
    "支払い": """
        {品}の代金が二回引き落とされました。 領収書を発行してください。 クーポンの割引が使えません。
        返金はいつ口座に入りますか。 請求書の金額が違います。 クレジットカードが使えませんでした。
        銀行振込で払えますか。 {品}の値段が表示と違います。 手数料がかかるのはなぜですか。
        代金を分割で払いたいです。 請求書の宛名を会社にしてください。 返金された金額が足りません。
        支払い方法を変更したいです。 振込の期限を延ばせますか。 消費税の計算が合いません。
        {品}の領収書が見つかりません。 コンビニで払うことはできますか。 割引が適用されていません。
        カードの明細に知らない請求があります。 代金はもう振り込みました。
    """,
    "アカウント": """
        パスワードを忘れました。 ログインができません。 メールアドレスを変更したいです。
        退会の手続きを教えてください。 確認のメールが届かず登録できません。 利用者の名前を直したいです。
        認証コードが携帯電話に来ません。 アカウントが停止されています。 お知らせメールを止めてください。
        二つのアカウントを一つにできますか。 登録した電話番号を消したいです。
        知らない端末からログインされています。 パスワードの再設定ができません。 会員の情報を更新したいです。
        アプリから何度もログアウトされます。 登録の途中で画面が止まります。 秘密の質問を忘れてしまいました。
        新しい端末で認証できません。 会員番号がわかりません。 利用者を一人追加したいです。
    """,
}
GOODS = "靴 机 本 時計 椅子 かばん 電話 カメラ 帽子 自転車"
OPENINGS = """
        お世話になっております。 はじめまして。 こんにちは。 お忙しいところ失礼します。 いつも利用しています。
"""
CLOSINGS = """
        よろしくお願いします。 ご確認ください。 返事を待っています。 どうすればよいでしょうか。 急いでいます。
"""

NEWS = """
        {人}さんは{地}で生まれました。 {組}は{地}に新しい工場を建てます。 {人}さんが{組}の社長になりました。
        {地}では昨日から雪が降っています。 {組}に勤める{人}さんが賞を受けました。
        {人}さんと{人}さんは{地}へ旅行しました。 {組}と{組}は来年から協力します。
        来月、{人}さんは{地}を訪れます。 {地}から{地}までは電車で二時間です。
        {組}は先月、{地}の店を閉めました。 作家の{人}さんが新しい本を書きました。
        朝から雨で、試合は中止になりました。 {人}さんは{組}をやめて{地}に戻りました。
        {地}の市長は{人}さんです。 {組}の{人}さんに話を聞きました。 祭りは夜の九時まで続きました。
        {時}は{品}の会議があります。 {時}、新しい{品}を買いに行きました。 {時}は雨でしたが、試合は行われました。
        {時}、友人と古い{品}を探しました。
    """
FAMILY = "田村 小川 西田 北島 森山 大野 岡本 村上 中島 石井 青木 藤原 松尾 竹内 横山"
GIVEN = "花子 太郎 健一 美咲 直樹 由美 翔太 恵子 誠 陽子 大輔 真理 拓也 直美 亮"
PLACES = "札幌 仙台 新潟 金沢 長野 静岡 京都 神戸 岡山 広島 高松 福岡 熊本 長崎 那覇"
FIRMS = "青空 若葉 北星 大和川 みどり 三日月 東海 白鳥 山の手 光 朝日野 春風 南星 川辺 銀河"
TIMES = "朝 昼 夜 明日 昨日 今日 来週 先週 来月 先月 今年 去年"
KINDS = "電機 銀行 大学 食品 製薬 鉄道 工業 新聞 建設 出版 自動車 病院 通信 農園 化学"
LABELS = {"人": "人名", "地": "地名", "組": "組織"}


def ticket(draw: random.Random, sentences: list[str]) -> str:
    """Return an opening, one or two sentences, a closing, any of the outer ones left out at times."""
    body = [one.replace("{品}", draw.choice(GOODS.split())) for one in draw.sample(sentences, draw.choice([1, 1, 2]))]
    around = [draw.choice([*some.split(), "", ""]) for some in (OPENINGS, CLOSINGS)]
    return "".join([around[0], *body, around[1]])


def news(draw: random.Random) -> tuple[str, list[dict[str, object]]]:
    """Return a sentence with names, and where they stand."""
    firms = [name + kind for name, kind in zip(FIRMS.split(), KINDS.split(), strict=True)]
    names = {"人": FAMILY.split(), "地": PLACES.split(), "組": firms, "時": TIMES.split(), "品": GOODS.split()}
    pattern, text, entities = draw.choice(NEWS.split()), "", []
    while pattern:
        if pattern[0] != "{":
            text, pattern = text + pattern[0], pattern[1:]
            continue
        kind, pattern = pattern[1], pattern[3:]
        name = draw.choice(names[kind])
        if kind == "人" and draw.random() < 0.7:
            name += draw.choice(GIVEN.split())
        if kind in LABELS:
            entities.append({"start": len(text), "end": len(text) + len(name), "label": LABELS[kind]})
        text += name
    return text, entities


def distinct(make, count):
    """Return so many results of `make`, no two with the same text (their first element)."""
    found = {}
    while len(found) < count:
        made = make()
        found.setdefault(made[0], made)
    return list(found.values())


def main() -> None:
    """Write all of it."""
    out, draw = Path(sys.argv[1]), random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    out.mkdir(parents=True, exist_ok=True)
    sentences = {label: text.split() for label, text in TICKETS.items()}

    def labelled() -> tuple[str, str]:
        label = draw.choice(list(TICKETS))
        return ticket(draw, sentences[label]), label

    with open(out / "raw.txt", "w", encoding="utf-8") as file:
        for _ in range(2000):
            some = sentences[draw.choice(list(TICKETS))]
            file.write("".join(ticket(draw, some) for _ in range(2)) + "\n")
            file.write("".join(news(draw)[0] for _ in range(3)) + "\n")
    tickets = distinct(labelled, 260)
    entities = distinct(lambda: news(draw), 460)
    for name, part in (("dev", slice(0, 60)), ("train", slice(60, None))):
        with open(out / f"tickets-{name}.tsv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows([("text", "label"), *tickets[part]])
        with open(out / f"entities-{name}.jsonl", "w", encoding="utf-8") as file:
            for text, found in entities[part]:
                file.write(json.dumps({"text": text, "entities": found}, ensure_ascii=False) + "\n")


main()
