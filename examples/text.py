"""A text by its words.

A word that is missing is gone, with the space before it. The model is a pipeline of scikit-learn on single words and
pairs; "not" turns what follows it around, and the explanation has to say so.
"""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import fans

words = {"great": "good", "moving": "good", "superb": "good", "weak": "bad", "dull": "bad", "tedious": "bad"}
reviews, verdicts = [], []
for word, verdict in words.items():
    for noun in ["film", "cast", "plot", "music", "ending", "camera"]:
        reviews += [f"The {noun} is {word}, we thought.", f"The {noun} is not {word}, we thought."]
        verdicts += [verdict, "bad" if verdict == "good" else "good"]
model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=100)).fit(reviews, verdicts)

explainer = fans.Explainer(model, reviews)
explanation = explainer(["We thought the music is not dull!", "The camera is weak: a pity."])
print(explanation)

alone = explainer.score("We thought the music is not dull!", ["dull"])
together = explainer.score("We thought the music is not dull!", ["not", "dull"])
print(f"both, of `dull` {alone.pns[0]:.2f}, of `not dull` {together.pns[0]:.2f}")
explanation.plot("text.png")
