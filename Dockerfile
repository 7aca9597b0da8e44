# The grader with bubblewrap, for staff:
#
#     docker build -t minbert-grader .
#     docker run --rm --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
#         -v "$PWD/submissions:/in:ro" -v "$PWD/gold:/gold:ro" -v "$PWD/grades:/out" \
#         minbert-grader /in --gold /gold --out /out
#
# The two options let bubblewrap make namespaces, which Docker's own filters forbid; the container
# holds nothing else. Its image holds the solution and test labels: keep it as private as those.
FROM python:3.11-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/minbert
COPY requirements.txt .
RUN grep '^torch==' requirements.txt | xargs pip install --no-cache-dir \
    && pip install --no-cache-dir -r requirements.txt
COPY . .
RUN chmod -R o= /opt/minbert
ENTRYPOINT ["python", "course/grade.py"]
