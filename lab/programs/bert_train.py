"""50 steps of training of BERT-base by AdamW with autocast; the losses are compared."""

import common

torch = common.torch_of()
model, _ = common.bert(torch)
model.train()
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
head = torch.nn.Linear(768, 2).cuda()
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-5)
losses = []


def step():
    tokens = torch.randint(0, 30000, (8, 128), device="cuda")
    labels = torch.randint(0, 2, (8,), device="cuda")
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(head(model(tokens).pooler_output), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach().float())
    torch.cuda.synchronize()


measured = common.times(step, 50, warm=3)
common.report(common.digest([torch.stack(losses).cpu()]), measured)
