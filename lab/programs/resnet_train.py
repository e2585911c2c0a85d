"""50 steps of training of ResNet-50, with batches from a DataLoader with workers."""

import time

import common

torch = common.torch_of()
import torchvision  # noqa: E402

BATCH, STEPS, WARM = 64, 50, 5


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return BATCH * (STEPS + WARM)

    def __getitem__(self, index):
        source = torch.Generator().manual_seed(index)
        return torch.randn(3, 224, 224, generator=source), index % 1000


def main():
    model = torchvision.models.resnet50().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.utils.data.DataLoader(Images(), batch_size=BATCH, num_workers=8, pin_memory=True)
    losses, measured = [], []
    for number, (batch, labels) in enumerate(images):
        if number >= WARM and number % 5 == 0:
            common.turn()
        batch, labels = batch.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        begin = time.perf_counter_ns()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().float())
        torch.cuda.synchronize()
        if number >= WARM:
            measured.append((time.perf_counter_ns() - begin) / 1e6)
    common.report(common.digest([torch.stack(losses).cpu()]), measured)


if __name__ == "__main__":
    main()
