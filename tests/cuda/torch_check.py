#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts/gpu_check.sh records where there is PyTorch. torch_check.py MODE, which prints lines as gpu_check.cu does:
  memory  mem ns bytes      the caching allocator holds so many bytes of the GPU since ns
  train   kernels from to nr busy_us    between two synchronisations CUPTI has seen so many kernels, in so much time that
                                        any of them ran; small layers, so that launching is what takes long
  graph   launches from to nr           so many launches of a graph, and nothing else, in between
"""
import os
import sys
import time

import torch

PID = os.getpid()


def say(key, *values):
    print(key, PID, *values, flush=True)


def use_memory():
    held = []

    def step():
        torch.cuda.synchronize()
        ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        time.sleep(0.0025)
        say("mem", ns, torch.cuda.memory_reserved())

    torch.cuda.init()
    step()
    for mib in (1, 3, 64, 700, 5):
        held.append(torch.zeros(mib << 20, dtype=torch.uint8, device="cuda"))
        step()
    del held[2:4]
    step()  # the allocator keeps it
    torch.cuda.empty_cache()
    step()
    held.append(held[0].float().sum())
    step()


def union_us(spans):
    total, end = 0.0, float("-inf")
    for begin, finish in sorted(spans):
        total += max(0.0, finish - max(begin, end))
        end = max(end, finish)
    return total


def train():
    net = torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    data = torch.randn(64, 256, device="cuda")

    def steps(nr):
        for _ in range(nr):
            optimizer.zero_grad()
            net(data).square().mean().backward()
            optimizer.step()
            torch.cuda.synchronize()  # as who prints the loss of each step

    steps(5)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities):  # what the first one loads
        steps(1)
    with torch.profiler.profile(activities=activities) as profile:
        time.sleep(0.01)
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        steps(50)
        end_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        time.sleep(0.01)
    events = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    # Copies are no kernels, nor is what the profiler notes in the GPU's line of time.
    others = ("Memcpy", "Memset", "Optimizer.", "ProfilerStep")
    kernels = [event for event in events if not event.name.startswith(others)]
    spans = [(e.time_range.start, e.time_range.end) for e in kernels]
    say("kernels", begin_ns, end_ns, len(kernels), int(union_us(spans)))


def launch_graph():
    x = torch.zeros(1 << 20, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x.add_(1)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(10):
            x.add_(1)
    torch.cuda.synchronize()
    time.sleep(0.01)
    begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    for _ in range(100):
        graph.replay()
    torch.cuda.synchronize()
    say("launches", begin_ns, time.clock_gettime_ns(time.CLOCK_MONOTONIC), 100)
    time.sleep(0.01)


if not torch.cuda.is_available():
    print("failed: torch.cuda is not available")
    sys.exit(77)
say("proc")
{"memory": use_memory, "train": train, "graph": launch_graph}[sys.argv[1]]()
